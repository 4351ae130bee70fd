"""Exact resampling of a part of an image, and how a large part is divided.

The filter is Pillow's BILINEAR with a fractional source box: a triangle as wide as one output pixel on either side when
shrinking (so it does not alias) and linear interpolation when enlarging. It never overshoots, so glass stays white and
no colour appears that was not there; Lanczos and bicubic ring at the edges of nuclei.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from PIL import Image

from slideseek_components.pixels.levels import Box

BLOCK_PIXELS = 2**24
"""Pixels decoded at once: a large region is assembled from blocks, so memory does not depend on its size."""


class Cells(NamedTuple):
    """A rectangle of whole output pixels."""

    left: int
    top: int
    right: int
    bottom: int


def blocks(box: Box, size: tuple[int, int], downsample: float) -> Iterator[tuple[Box, Cells]]:
    """Divide a box (level-0 pixels) and its output of `size` (w, h) into parts that are decoded one at a time."""
    side = math.isqrt(BLOCK_PIXELS)
    columns = max(1, int(side * downsample * size[0] / (box.right - box.left)))
    rows = max(1, int(side * downsample * size[1] / (box.bottom - box.top)))
    yield from _cut(box, Cells(0, 0, *size), columns, rows)


def quarters(part: Box, cells: Cells) -> Iterator[tuple[Box, Cells]]:
    """Divide one part into four (fewer if it has a single row or column of output pixels)."""
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


def flatten(image: Image.Image, background: tuple[int, int, int]) -> tuple[Image.Image, Image.Image | None]:
    """Return the image as RGB over the background, and its alpha if any pixel is not opaque."""
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
