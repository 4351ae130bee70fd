"""A coarse image of a tiled TIFF without a coarse level: its tiles, decoded at a fraction of their size.

JPEG stores the mean of every 8 x 8 pixels apart from their detail, and JPEG 2000 a pyramid of wavelets. A decoder that
stops there takes a quarter to a fifteenth of the time, and its pixels are nearly the means of those of a full decode.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO

import numpy as np
from PIL import Image
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile

from slideseek_components.pixels.levels import Box
from slideseek_components.readers.tiff_layout import Page, read_pages

FACTORS = (8, 4)
"""By which tiles are reduced, at most as far as the blocks of JPEG allow; below that little time is saved."""

MOST_PIXELS = 2**26
"""Pixels of a reduced page above which it is read as before, in blocks of bounded size."""

_JPEG, _J2K_RGB = 7, 33005
_RGB, _YCBCR = 2, 6
_START = b"\xff\xd8"
_NOT_YCBCR = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"
"""The marker that tells a decoder that the channels are red, green and blue; TIFF says so in a tag instead."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A page as an RGB image, reduced by a whole factor. box: left, top, right and bottom of the page in it."""

    image: Image.Image
    factor: int
    box: Box


def reduced_page(file: BinaryIO, size: tuple[int, int], scale: float) -> Reduced | None:
    """Return the page of `size` (w, h) of a TIFF reduced by the largest factor up to `scale`.

    None if there is no such page of JPEG or JPEG 2000 tiles, or if anything about it is unusual or damaged: the caller
    then decodes it whole, and deals with damage.
    """
    factor = next((factor for factor in FACTORS if factor <= scale), 0)
    if not factor:
        return None
    try:
        for page in read_pages(file):
            if page.size == size and _can_reduce(page, factor):
                # The tiles at the border reach beyond the page.
                image = _assembled(file, page, factor).crop((0, 0, -(-size[0] // factor), -(-size[1] // factor)))
                if page.compression != _J2K_RGB:
                    return Reduced(image, factor, Box(0.0, 0.0, size[0] / factor, size[1] / factor))
                # A coefficient of a wavelet stands where the first of its pixels is, not in the middle of them.
                shift = (1 - 1 / factor) / 2
                box = Box(shift, shift, shift + size[0] / factor, shift + size[1] / factor)
                edged = np.pad(np.asarray(image), ((0, 1), (0, 1), (0, 0)), mode="edge")
                return Reduced(Image.fromarray(edged), factor, box)
    except Exception:  # decoders raise many types for tiles that are not what they seem
        return None
    return None


def _can_reduce(page: Page, factor: int) -> bool:
    kinds = ((_JPEG, _RGB), (_JPEG, _YCBCR), (_J2K_RGB, _RGB))
    if not all(page.tile) or any(side % factor for side in page.tile):
        return False
    number = page.across * page.down
    bounded = (
        len(page.offsets) == len(page.counts) == number <= MOST_PIXELS * factor**2 // (page.tile[0] * page.tile[1])
    )
    plain = page.planar == 1 and page.samples == 3
    return bounded and plain and (page.compression, page.photometric) in kinds and bool(page.counts.all())


def _assembled(file: BinaryIO, page: Page, factor: int) -> Image.Image:
    """Return all tiles of a page, reduced, side by side."""
    width, height = page.tile[0] // factor, page.tile[1] // factor
    canvas = Image.new("RGB", (page.across * width, page.down * height))
    for number, (offset, count) in enumerate(zip(page.offsets.tolist(), page.counts.tolist())):
        file.seek(offset)
        tile = _decoded(file.read(count), page, factor)
        if tile.size != (width, height) or tile.mode != "RGB":
            raise ValueError(f"a tile of {tile.size} {tile.mode} in a page of {page.tile}")
        canvas.paste(tile, (number % page.across * width, number // page.across * height))
    return canvas


def _decoded(data: bytes, page: Page, factor: int) -> Image.Image:
    if page.compression == _J2K_RGB:
        waves = Jpeg2KImageFile(BytesIO(data))
        if waves.size != page.tile:
            raise ValueError(f"a tile of {waves.size} in a page of {page.tile}")
        waves.reduce = factor.bit_length() - 1
        waves.load()
        return waves
    if not data.startswith(_START):
        raise ValueError("a tile without the head of a JPEG")
    tables = page.tables[2:-2] if page.tables else b""
    colours = _NOT_YCBCR if page.photometric == _RGB else b""
    image = Image.open(BytesIO(_START + colours + tables + data[2:]), formats=("JPEG",))
    if image.size != page.tile:
        raise ValueError(f"a tile of {image.size} in a page of {page.tile}")
    image.draft("RGB", (page.tile[0] // factor, page.tile[1] // factor))
    image.load()
    return image
