"""The geometry and filtering of exact resampling, as pure functions.

The filter is Pillow's BILINEAR with a fractional source box: a triangle as wide as one output pixel on either side when
shrinking (so it does not alias) and linear interpolation when enlarging. It never overshoots, so glass stays white and
no colour appears that was not there; Lanczos and bicubic ring at the edges of nuclei.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image

BLOCK_PIXELS = 2**24
"""Pixels decoded at once: a large region is put together from blocks, so memory does not depend on its size."""

MIN_LEVEL_SIDE = 400
"""A level's downsample is only known to one pixel in its side; 400 keeps that error at 0.25 % of a width."""

LEVEL_SLACK = 1.005
"""Downsamples such as 2.0005 stand for 2: half a percent of enlargement is allowed before a finer level is read."""


_MIN_BOX = 1e-3


class Level(NamedTuple):
    """Width and height in pixels of a pyramid level, and level-0 pixels per pixel of it."""

    width: int
    height: int
    downsample: float


class Box(NamedTuple):
    """A rectangle, edges in pixels of some frame, x to the right and y down; edges may be fractional."""

    left: float
    top: float
    right: float
    bottom: float

    def outside(self, dimensions: tuple[int, int]) -> bool:
        """Tell whether nothing of the box lies within (0, 0, width, height)."""
        return self.right <= 0 or self.bottom <= 0 or self.left >= dimensions[0] or self.top >= dimensions[1]


class Cells(NamedTuple):
    """A rectangle of whole output pixels."""

    left: int
    top: int
    right: int
    bottom: int


class Window(NamedTuple):
    """What to decode of a level (origin in level-0 pixels, size in level pixels) and the box inside it to resample."""

    origin: tuple[int, int]
    size: tuple[int, int]
    box: Box


def choose_level(levels: Sequence[Level], scale: float) -> int:
    """Return the coarsest level that has at least the detail asked; `scale` is level-0 pixels per output pixel."""
    best = 0
    for index, level in enumerate(levels):
        fine_enough = level.downsample <= scale * LEVEL_SLACK
        exact_enough = min(level.width, level.height) >= MIN_LEVEL_SIDE
        if fine_enough and exact_enough and level.downsample > levels[best].downsample:
            best = index
    return best


def blocks(box: Box, size: tuple[int, int], downsample: float) -> Iterator[tuple[Box, Cells]]:
    """Cut a box (level-0 pixels) and its output of `size` (w, h) into parts that are decoded one at a time."""
    side = math.isqrt(BLOCK_PIXELS)
    columns = max(1, int(side * downsample * size[0] / (box.right - box.left)))
    rows = max(1, int(side * downsample * size[1] / (box.bottom - box.top)))
    yield from _cut(box, Cells(0, 0, *size), columns, rows)


def quarters(part: Box, cells: Cells) -> Iterator[tuple[Box, Cells]]:
    """Cut one part in four (fewer where it has a single row or column of output pixels)."""
    return _cut(part, cells, -(-(cells.right - cells.left) // 2), -(-(cells.bottom - cells.top) // 2))


def _cut(box: Box, cells: Cells, columns: int, rows: int) -> Iterator[tuple[Box, Cells]]:
    """Yield the parts of a box, each of at most `columns` x `rows` output pixels, with those pixels."""
    step_x = (box.right - box.left) / (cells.right - cells.left)
    step_y = (box.bottom - box.top) / (cells.bottom - cells.top)
    for top in range(cells.top, cells.bottom, rows):
        for left in range(cells.left, cells.right, columns):
            cut = Cells(left, top, min(cells.right, left + columns), min(cells.bottom, top + rows))
            yield (
                Box(
                    box.left + (cut.left - cells.left) * step_x,
                    box.top + (cut.top - cells.top) * step_y,
                    box.left + (cut.right - cells.left) * step_x,
                    box.top + (cut.bottom - cells.top) * step_y,
                ),
                cut,
            )


def source_window(part: Box, whole: Box, base: Level, level: Level, size: tuple[int, int]) -> Window:
    """Return what to decode so that `part` (level-0 pixels) can be resampled to `size` output pixels.

    The filter looks beyond the part by its support, so that neighbouring patches join without a seam; it looks beyond
    the edge of the slide only where `whole` itself reaches there, so that the rim of a slide does not turn white.
    """
    x, width, left, right = _span(
        part.left, part.right, whole.left, whole.right, base.width, level.width, level.downsample, size[0]
    )
    y, height, top, bottom = _span(
        part.top, part.bottom, whole.top, whole.bottom, base.height, level.height, level.downsample, size[1]
    )
    return Window((x, y), (width, height), Box(left, top, right, bottom))


def _span(
    low: float, high: float, whole_low: float, whole_high: float, base: int, level: int, downsample: float, pixels: int
) -> tuple[int, int, float, float]:
    """Return one axis of a window: origin (level 0), length (level pixels), both edges of the box from the origin."""
    last = _level_edge(high, base, level, downsample)
    first = min(low / downsample, last - _MIN_BOX)
    support = max(1.0, (last - first) / pixels)
    lowest = min(0.0, whole_low / downsample)
    highest = max(float(level), _level_edge(whole_high, base, level, downsample))
    origin = math.floor(math.floor(max(first - support, lowest)) * downsample)
    start = origin / downsample
    length = max(1, math.ceil(min(last + support, highest) - start))
    return origin, length, max(0.0, first - start), min(float(length), last - start)


def _level_edge(edge: float, base: int, level: int, downsample: float) -> float:
    """Turn a right or bottom edge from level 0 to a level.

    A level of floor(base / 2) pixels ends a fraction of a pixel before base / downsample; what is inside the slide must
    not reach beyond, or a white rim appears.
    """
    return min(edge / downsample, float(level)) if edge <= base else edge / downsample


def flatten(image: Image.Image, background: tuple[int, int, int]) -> tuple[Image.Image, Image.Image | None]:
    """Return the image as RGB over the background, and its alpha where any pixel is not opaque."""
    if image.mode == "RGB":
        return image, None
    alpha = image.getchannel("A")
    if alpha.getextrema() == (255, 255):
        return image.convert("RGB"), None
    canvas = Image.new("RGB", image.size, background)
    canvas.paste(image, mask=alpha)
    return canvas, alpha


def resize(image: Image.Image, box: Box, size: tuple[int, int]) -> Image.Image:
    """Resample `box` of the image to `size` (w, h)."""
    width, height = box.right - box.left, box.bottom - box.top
    if (width, height) == size and box.left.is_integer() and box.top.is_integer():
        return image.crop((int(box.left), int(box.top), int(box.right), int(box.bottom)))
    return image.resize(size, Image.Resampling.BILINEAR, box=box)
