"""Tiled TIFF and Aperio SVS read by ranges: only the tiles that are needed travel.

Used where it gives the very pixels that OpenSlide gives: tiles of JPEG or without loss, levels reduced by whole factors
(between the pixels of other levels OpenSlide interpolates). Anything else is declined, and read whole.
"""

from __future__ import annotations

import re
import threading
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from slideseek.errors import RegionError, SlideError, message
from slideseek.slides.slide_errors import DeclinedError
from slideseek.types import UInt8
from slideseek_components.pixels.levels import Box, Level
from slideseek_components.pixels.resolution import objective_power, resolve
from slideseek_components.readers.inside_levels import InsideLevels
from slideseek_components.readers.reduced_tiles import reduced_page
from slideseek_components.readers.tiff_reader import density

_JPEG, _LOSSLESS = 7, (1, 5, 8, 32946)
_OF_VENDORS = re.compile(r"<\?xml|<\w+[ >]|Philips|MedScan|Hamamatsu|Ventana|Leica", re.IGNORECASE)
_NDPI, _XMP = 65420, 700
_MAX_TILE = 2**26


class RemoteTiff(InsideLevels):
    """A pyramid of tiled pages. file: closed with the slide. Raises `DeclinedError` for what must be read whole."""

    def __init__(self, file: BinaryIO, slide_id: str, mpp: float | None, name: str) -> None:
        import tifffile  # takes as long as a slide; local ones do without it

        self._file = file
        self._reading = threading.Lock()
        try:
            self._tiff = tifffile.TiffFile(file)
            self._pages = _levels(self._tiff)
            description = self._pages[0].description or ""
        except SlideError:
            raise
        except Exception as error:  # tifffile raises many types for files that are not what they seem
            raise DeclinedError(f"{name} cannot be read by ranges ({message(error)})") from error
        aperio = description.startswith("Aperio")
        properties = density(self._pages[0]) | (_aperio(description) if aperio else {})
        base = self._pages[0]
        super().__init__(
            slide_id,
            [
                Level(page.imagewidth, page.imagelength, float(base.imagewidth // page.imagewidth))
                for page in self._pages
            ],
            resolve(properties, mpp, name),
            format="aperio" if aperio else "generic-tiff",
            objective=objective_power(properties),
        )

    def close(self) -> None:
        """Release the file; reading afterwards raises `SlideError`."""
        super().close()
        self._file.close()

    def _read_coarse(self, level: int, scale: float) -> tuple[Image.Image, Box] | None:
        """Return a level of JPEG tiles as its decoder reduces it."""
        with self._reading:
            found = reduced_page(self._file, self.levels[level][:2], scale)
        return (found.image, found.box) if found else None

    def _read_inside(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> UInt8:
        page = self._pages[level]
        across, down = page.tilewidth, page.tilelength
        (x, y), (width, height) = xy, size
        region = np.empty((height, width, 3), np.uint8)
        for row in range(y // down, (y + height - 1) // down + 1):
            for column in range(x // across, (x + width - 1) // across + 1):
                tile = self._tile(level, row, column)
                left, top = column * across, row * down
                x0, x1 = max(x, left), min(x + width, left + across)
                y0, y1 = max(y, top), min(y + height, top + down)
                region[y0 - y : y1 - y, x0 - x : x1 - x] = tile[y0 - top : y1 - top, x0 - left : x1 - left, :3]
        return region

    def _tile(self, level: int, row: int, column: int) -> UInt8:
        page = self._pages[level]
        number = row * -(-page.imagewidth // page.tilewidth) + column
        start, size = page.dataoffsets[number], page.databytecounts[number]
        with self._reading:
            self._file.seek(start)
            data = self._file.read(size)
        try:
            decoded, _, _ = page.decode(data, number, jpegtables=page.jpegtables, _fullsize=True)
            return np.asarray(decoded[0], np.uint8)
        except Exception as error:
            raise RegionError(
                f"tile {column}, {row} (level {level}) of slide {self.id!r} cannot be decoded ({message(error)})",
                "upload the file again if many tiles fail",
            ) from error


def _levels(tiff: Any) -> list[Any]:
    """Return the pages of the pyramid, the largest first."""
    first = tiff.pages[0]
    software = str(first.tags.valueof("Software", ""))
    described = first.description or ""
    if _NDPI in first.tags or _XMP in first.tags or _OF_VENDORS.search(f"{software} {described}"):
        raise DeclinedError("a TIFF of a vendor's own layout")
    pages = [page for page in tiff.pages if page.is_tiled and page.imagewidth * page.imagelength]
    if not pages or pages[0] is not first:
        raise DeclinedError("not tiled")
    pages.sort(key=lambda page: -page.imagewidth)
    for page in pages:
        ok = int(page.compression) == _JPEG or int(page.compression) in _LOSSLESS
        plain = page.samplesperpixel == 3 and page.bitspersample == 8 and int(page.planarconfig) == 1
        if not (ok and plain and page.tilewidth * page.tilelength <= _MAX_TILE) or 0 in page.databytecounts:
            raise DeclinedError("tiles that OpenSlide decodes in its own way")
        if first.imagewidth % page.imagewidth or first.imagelength % page.imagelength:
            raise DeclinedError("levels that are not reduced by whole factors")
        if first.imagewidth // page.imagewidth != first.imagelength // page.imagelength:
            raise DeclinedError("levels reduced differently across and down")
    return pages


def _aperio(description: str) -> dict[str, str]:
    """Return the properties of an Aperio description, under OpenSlide's names."""
    pairs = (part.partition("=") for part in description.split("|")[1:])
    found = {f"aperio.{name.strip()}": value.strip() for name, sign, value in pairs if sign}
    if "aperio.MPP" in found:
        found |= {"openslide.mpp-x": found["aperio.MPP"], "openslide.mpp-y": found["aperio.MPP"]}
    if "aperio.AppMag" in found:
        found["openslide.objective-power"] = found["aperio.AppMag"]
    return found
