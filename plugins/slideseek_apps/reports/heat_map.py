"""Heat maps: the patches of a slide on its thumbnail, coloured by their contribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.searching.evidence import Evidence, EvidenceKind
from slideseek.types import UInt8
from slideseek_apps.reports.explained_match import Side, open_pixels
from slideseek_apps.reports.heat_colours import HeatScale
from slideseek_apps.reports.page_images import length_label, scale_bar
from slideseek_apps.reports.picture_sheet import INK, PAPER, SOFT, Box, Picture, Sheet, Veil, Words
from slideseek_apps.reports.picture_text import clipped, text_width

OPACITY = 0.6
SMALL = 12
TITLE_HEIGHT, LEGEND_HEIGHT = 50, 34


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


def draw_heat(
    sheet: Sheet, at: tuple[float, float], size: float, thumbnail: Thumbnail, side: Side, slide_id: str, heat: HeatScale
) -> float:
    """Draw a slide, its longer side `size` units, with its patches and a scale bar; return the height in units.

    The strongest patches are on top.
    """
    left, top = at
    rows, columns = (int(extent) for extent in thumbnail.pixels.shape[:2])
    unit = size / max(rows, columns)  # units per thumbnail pixel
    sheet.items.append(Picture(left, top, columns * unit, rows * unit, thumbnail.pixels))
    paint = heat.colours(side.parts)
    boxes = []
    for number in sorted(side.patches_on(slide_id), key=lambda n: abs(side.parts[n]) if heat.parted else side.parts[n]):
        x, y = (float(value) * thumbnail.scale * unit for value in side.squares.xy[number])
        extent = max(float(side.squares.side[number]) * thumbnail.scale * unit, 2.0)
        boxes.append(Box(left + x, top + y, extent, extent, "#" + bytes(paint[number].tolist()).hex()))
    sheet.items.append(Veil(tuple(boxes), OPACITY))
    sheet.items += [Box(one.x, one.y, one.width, one.height, one.colour, outline=True) for one in boxes]
    if thumbnail.mpp is not None:
        _draw_scale(sheet, left, top + rows * unit, thumbnail.mpp / unit, columns * unit)
    return rows * unit


def draw_legend(sheet: Sheet, at: tuple[float, float], width: float, kind: EvidenceKind, heat: HeatScale) -> None:
    """Draw the colour scale of a picture in `LEGEND_HEIGHT` units, with labels at its ends."""
    x, y = at
    bar = width / 3
    left, right = heat.ends(kind)
    strip = heat.ramp(np.linspace(0, 1, sheet.pixels_of(bar)))
    sheet.items += [
        Picture(x + (width - bar) / 2, y + 10, bar, 12, np.repeat(strip[None], sheet.pixels_of(12), axis=0)),
        Words(x + (width - bar) / 2 - 10, y + 20.5, left, SMALL, SOFT, "end"),
        Words(x + (width + bar) / 2 + 10, y + 20.5, right, SMALL, SOFT),
    ]


def draw_titled_heat(
    sheet: Sheet, at: tuple[float, float], size: float, evidence: Evidence, side: Side, heat: HeatScale
) -> float:
    """Draw the heat map of one side below a title; return the height. Of a case, the slide with the strongest patch."""
    slide_id = side.slide_ids[0]
    x, y = at
    several = f", strongest of {len(side.slide_ids)} slides" if len(side.slide_ids) > 1 else ""
    about = f"{side.name}, {len(side.patches_on(slide_id))} patches{several}"
    sheet.items += [
        Words(x, y + 20, clipped(slide_id if several else side.title, 18, size), 18),
        Words(x, y + 39, clipped(about, 13, size), 13, SOFT),
    ]
    thumbnail = side_thumbnail(side, slide_id, sheet.pixels_of(size))
    return TITLE_HEIGHT + draw_heat(sheet, (x, y + TITLE_HEIGHT), size, thumbnail, side, slide_id, heat)


def _draw_scale(sheet: Sheet, left: float, bottom: float, mpp: float, width: float) -> None:
    """Draw a scale bar in the lower left corner of a slide. mpp: µm per unit."""
    length, units = scale_bar(mpp, max(1, round(width)))
    text = length_label(length)
    x, y = left + 10, bottom - 12
    wide = max(units, text_width(text, SMALL))
    sheet.items += [
        Box(x - 5, y - 19, wide + 10, 28, PAPER),
        Box(x, y, units, 4, INK),
        Words(x, y - 5, text, SMALL),
    ]
