"""A sheet of pictures, boxes and text for print: drawn as pixels at any resolution, or as SVG.

Places and sizes are in units of 1/128 inch: a panel of 896 units is 7 inches wide, the full width of a journal's page,
and its smallest text, 12 units, is set in 6.75 points.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image, ImageDraw

from slideseek.errors import UsageError
from slideseek.types import UInt8
from slideseek_apps.reports.picture_text import text_width, write

UNITS_PER_INCH = 128
PRINT_DPI = 300
MOST_PIXELS = 150_000_000
"""Most pixels of a drawn sheet: 450 MB of memory."""

INK, SOFT, PAPER = "#1b2129", "#4b5563", "#ffffff"
FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Pixels, RGB uint8 (h, w, 3), stretched to a rectangle."""

    x: float
    y: float
    width: float
    height: float
    pixels: UInt8


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: filled, or an outline 1 unit wide within it."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    outline: bool = False


@dataclass(frozen=True, slots=True)
class Veil:
    """Filled boxes that lie over a picture as one layer: where they overlap, the last one is seen alone."""

    boxes: tuple[Box, ...]
    opacity: float


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text. y: its baseline. anchor: which of its ends is at x."""

    x: float
    y: float
    text: str
    size: float
    colour: str = INK
    anchor: Literal["start", "end"] = "start"


Item: TypeAlias = Picture | Box | Veil | Words


@dataclass(slots=True)
class Sheet:
    """A sheet of paper in units. dpi: the resolution it is drawn at, for which its pictures are read."""

    width: float
    height: float
    dpi: int = PRINT_DPI
    items: list[Item] = field(default_factory=list)

    @property
    def scale(self) -> float:
        """Pixels per unit."""
        return self.dpi / UNITS_PER_INCH

    def pixels_of(self, units: float) -> int:
        """Return a length in pixels, at least 1."""
        return max(1, round(units * self.scale))

    def pixels(self) -> UInt8:
        """Draw the sheet: RGB uint8 (h, w, 3)."""
        size = self.pixels_of(self.width), self.pixels_of(self.height)
        if size[0] * size[1] > MOST_PIXELS:
            raise UsageError(
                f"a picture of {size[0]} x {size[1]} pixels is too large", "show fewer patches (-n) or lower --dpi"
            )
        image = Image.new("RGB", size, PAPER)
        for item in self.items:
            self._draw(image, item)
        return np.asarray(image)

    def svg(self) -> str:
        """Return the sheet as an SVG document: text and shapes as such, pictures embedded."""
        inches = f'width="{self.width / UNITS_PER_INCH:g}in" height="{self.height / UNITS_PER_INCH:g}in"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {inches}'
            f' viewBox="0 0 {self.width:g} {self.height:g}">',
            f'<rect width="{self.width:g}" height="{self.height:g}" fill="{PAPER}"/>',
            *(_svg(item) for item in self.items),
            "</svg>\n",
        ]
        return "\n".join(lines)

    def _draw(self, image: Image.Image, item: Item) -> None:
        pen = ImageDraw.Draw(image)
        if isinstance(item, Picture):
            left, top, right, bottom = self._corners(item)
            drawn = Image.fromarray(item.pixels)
            if drawn.size != (right - left, bottom - top):
                drawn = drawn.resize((right - left, bottom - top), Image.Resampling.LANCZOS)
            image.paste(drawn, (left, top))
        elif isinstance(item, Box):
            left, top, right, bottom = self._corners(item)
            look = {"outline": item.colour, "width": self.pixels_of(1)} if item.outline else {"fill": item.colour}
            pen.rectangle([left, top, right - 1, bottom - 1], **look)
        elif isinstance(item, Veil):
            cover, mask = image.copy(), Image.new("L", image.size)
            over, through = ImageDraw.Draw(cover), ImageDraw.Draw(mask)
            for box in item.boxes:
                left, top, right, bottom = self._corners(box)
                over.rectangle([left, top, right - 1, bottom - 1], fill=box.colour)
                through.rectangle([left, top, right - 1, bottom - 1], fill=round(255 * item.opacity))
            image.paste(cover, (0, 0), mask)
        else:
            size = item.size * self.scale
            x = item.x * self.scale - (text_width(item.text, size) if item.anchor == "end" else 0)
            write(pen, (x, item.y * self.scale), item.text, size, item.colour)

    def _corners(self, item: Picture | Box) -> tuple[int, int, int, int]:
        left, top = round(item.x * self.scale), round(item.y * self.scale)
        return left, top, left + self.pixels_of(item.width), top + self.pixels_of(item.height)


def _svg(item: Item) -> str:
    if isinstance(item, Picture):
        buffer = io.BytesIO()
        Image.fromarray(item.pixels).save(buffer, "PNG")
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        return f'<image {_place(item)} preserveAspectRatio="none" xlink:href="data:image/png;base64,{data}"/>'
    if isinstance(item, Box) and item.outline:  # SVG draws half of a line outside of its rectangle
        inner = Box(item.x + 0.5, item.y + 0.5, item.width - 1, item.height - 1, item.colour)
        return f'<rect {_place(inner)} fill="none" stroke="{item.colour}" stroke-width="1"/>'
    if isinstance(item, Box):
        return f'<rect {_place(item)} fill="{item.colour}"/>'
    if isinstance(item, Veil):
        return f'<g opacity="{item.opacity:g}">{"".join(map(_svg, item.boxes))}</g>'
    look = f'font-family="{FONT}" font-size="{item.size:g}" fill="{item.colour}" text-anchor="{item.anchor}"'
    return f'<text x="{item.x:g}" y="{item.y:g}" {look}>{escape(item.text)}</text>'


def _place(item: Picture | Box) -> str:
    width, height = max(item.width, 0), max(item.height, 0)
    return f'x="{item.x:.6g}" y="{item.y:.6g}" width="{width:.6g}" height="{height:.6g}"'
