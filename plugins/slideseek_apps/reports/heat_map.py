"""Heat maps: the patches of a slide on its thumbnail, coloured by their contribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from slideseek.searching.evidence import Evidence, EvidenceKind
from slideseek.types import UInt8
from slideseek_apps.reports.explained_match import Side, open_pixels
from slideseek_apps.reports.heat_colours import colours, ramp
from slideseek_apps.reports.page_images import length_label, scale_bar
from slideseek_apps.reports.picture_text import INK, SOFT, clipped, lettering

OPACITY = 0.6
LEGEND_HEIGHT = 30


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A thumbnail of a slide.

    pixels: RGB uint8 (h, w, 3). scale: thumbnail pixels per level-0 pixel. mpp: µm per thumbnail pixel, None when the
    slide's resolution is unknown.
    """

    pixels: UInt8
    scale: float
    mpp: float | None


def side_thumbnail(side: Side, slide_id: str, size: int) -> Thumbnail:
    """Read the thumbnail of one slide of a side, its longer side at most `size` pixels."""
    slide, known = open_pixels(side.sources[slide_id], slide_id)
    with slide:
        pixels = slide.thumbnail(size)
        scale = pixels.shape[1] / slide.dimensions[0]
        return Thumbnail(pixels, scale, slide.mpp / scale if known else None)


def draw_heat(thumbnail: Thumbnail, evidence: Evidence, side: Side, slide_id: str) -> Image.Image:
    """Draw the patches of a slide over its thumbnail, with a scale bar. The strongest patches are on top."""
    image = Image.fromarray(thumbnail.pixels).convert("RGBA")
    veil = Image.new("RGBA", image.size, (0, 0, 0, 0))
    pen = ImageDraw.Draw(veil)
    paint = colours(side.parts, evidence.kind)
    numbers = side.patches_on(slide_id)
    for number in sorted(numbers, key=lambda n: abs(side.parts[n]), reverse=evidence.kind == "pairs"):
        left, top = (float(value) * thumbnail.scale for value in side.squares.xy[number])
        extent = max(float(side.squares.side[number]) * thumbnail.scale, 2.0)
        fill = tuple(int(channel) for channel in paint[number])
        box = [left, top, left + extent - 1, top + extent - 1]
        pen.rectangle(box, fill=(*fill, round(255 * OPACITY)), outline=(*fill, 255), width=1)
    image.alpha_composite(veil)
    if thumbnail.mpp is not None:
        _draw_scale(image, thumbnail.mpp)
    return image.convert("RGB")


def draw_legend(kind: EvidenceKind, low: float, high: float, width: int) -> Image.Image:
    """Draw the colour scale with labels at its ends."""
    image = Image.new("RGB", (width, LEGEND_HEIGHT), "white")
    pen, font = ImageDraw.Draw(image), lettering(13)
    left_text, right_text = _ends(kind, low, high)
    right_width = round(pen.textlength(right_text, font=font))
    left = round(pen.textlength(left_text, font=font)) + 10
    bar = max(width - left - right_width - 10, 20)
    strip = ramp(np.linspace(0, 1, bar), kind)
    image.paste(Image.fromarray(np.repeat(strip[None], 12, axis=0)), (left, 9))
    pen.text((0, 7), left_text, fill=SOFT, font=font)
    pen.text((left + bar + 10, 7), right_text, fill=SOFT, font=font)
    return image


def titled_heat(evidence: Evidence, side: Side, size: int) -> Image.Image:
    """Draw the heat map of one side with a title. For a case, the slide with the strongest patch is drawn."""
    slide_id = side.slide_ids[0]
    heat = draw_heat(side_thumbnail(side, slide_id, size), evidence, side, slide_id)
    sheet = Image.new("RGB", (size, heat.height + 50), "white")
    pen = ImageDraw.Draw(sheet)
    several = f", strongest of {len(side.slide_ids)} slides" if len(side.slide_ids) > 1 else ""
    name = slide_id if several else side.title
    pen.text((0, 4), clipped(pen, name, lettering(18), size), fill=INK, font=lettering(18))
    about = f"{side.name}, {len(side.patches_on(slide_id))} patches{several}"
    pen.text((0, 27), clipped(pen, about, lettering(13), size), fill=SOFT, font=lettering(13))
    sheet.paste(heat, (0, 50))
    return sheet


def _ends(kind: EvidenceKind, low: float, high: float) -> tuple[str, str]:
    if kind == "pairs":
        return f"least similar, distance {-low:.4g}", f"{-high:.4g}, most similar"
    largest = max(abs(low), abs(high))
    return f"less similar {-largest:+.3g}", f"{largest:+.3g} more similar"


def _draw_scale(image: Image.Image, mpp: float) -> None:
    length, pixels = scale_bar(mpp, image.width)
    pen, font = ImageDraw.Draw(image), lettering(13)
    left, bottom = 10, image.height - 12
    text = length_label(length).replace("µ", "u")  # the font has no µ
    wide = pen.textlength(text, font=font)
    pen.rectangle([left - 5, bottom - 22, left + max(pixels, wide) + 5, bottom + 7], fill=(255, 255, 255, 255))
    pen.rectangle([left, bottom, left + pixels, bottom + 3], fill=INK)
    pen.text((left, bottom - 20), text, fill=INK, font=font)
