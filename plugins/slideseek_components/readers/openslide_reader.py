"""Whole-slide formats read with OpenSlide: Aperio, Hamamatsu, MIRAX, Leica, DICOM, tiled TIFF and others."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import openslide
from PIL import Image

from slideseek.errors import RegionError, SlideError, message
from slideseek.interfaces import Reader
from slideseek.slides.slide_errors import DeclinedError, damaged, first_bytes
from slideseek_components.pixels.levels import Box, Level, exact_downsample
from slideseek_components.pixels.pyramid import PyramidSlide
from slideseek_components.pixels.resolution import objective_power, resolve
from slideseek_components.readers.reduced_tiles import reduced_page
from slideseek_components.readers.tiff_layout import MAGIC, check_complete

_WHITE = (255, 255, 255)

_PLAIN_TIFF = ("aperio", "generic-tiff")
"""Formats of OpenSlide whose levels are pages of a TIFF, tile beside tile."""


@dataclass(frozen=True)
class OpenSlideReader(Reader):
    """Read the whole-slide formats that OpenSlide knows."""

    code_revision: ClassVar[int] = 2
    rank: ClassVar[int] = 100

    def claims(self, path: Path, head: bytes) -> bool:
        """Claim every file: only OpenSlide itself can tell, and it is asked once, when the file is opened."""
        return True

    def open(self, path: Path, slide_id: str, mpp: float | None) -> OpenSlidePyramid:
        """Open a slide; decline a file of another format, and a TIFF that OpenSlide detects and cannot open."""
        vendor = openslide.OpenSlide.detect_format(path)
        if vendor is None:
            if path.suffix.lower() == ".mrxs":
                # The file itself is a JPEG thumbnail: without its folder it must not be taken for the slide.
                raise SlideError(
                    f"{path.name} cannot be read without the folder {path.with_suffix('')}/ that holds its pixels",
                    "also copy that folder, next to the .mrxs file",
                )
            raise DeclinedError(f"OpenSlide does not know the format of {path.name}")
        is_tiff = first_bytes(path).startswith(MAGIC)
        if is_tiff:
            check_complete(path, vendor)
        try:
            return OpenSlidePyramid(path, slide_id, mpp)
        except openslide.OpenSlideError as error:
            if is_tiff:
                raise DeclinedError(f"OpenSlide cannot open {path.name} ({message(error)})") from error
            raise damaged(path, error) from error


class OpenSlidePyramid(PyramidSlide):
    """A slide read with OpenSlide. Raises `openslide.OpenSlideError` if it cannot be opened.

    properties: everything OpenSlide reports about the file. Colours are the file's own; its ICC profile is not applied.
    """

    def __init__(self, path: Path, slide_id: str, mpp: float | None) -> None:
        self._path = path
        self._swapping = threading.Lock()
        self._handle = openslide.OpenSlide(path)
        self.properties = dict(self._handle.properties)
        ratios = self._handle.level_downsamples
        base = Level(*self._handle.dimensions, 1.0)
        super().__init__(
            slide_id,
            [
                Level(width, height, exact_downsample(base, width, height, ratio))
                for (width, height), ratio in zip(self._handle.level_dimensions, ratios)
            ],
            resolve(self.properties, mpp, path.name),
            format=self.properties.get(openslide.PROPERTY_NAME_VENDOR, "openslide"),
            objective=objective_power(self.properties),
            background=_colour(self.properties.get(openslide.PROPERTY_NAME_BACKGROUND_COLOR, "")),
            addresses=ratios,
        )

    @property
    def read_by(self) -> str:
        """What counts of the reader's code: its second revision changed thumbnails of plain TIFFs and nothing else.

        All other formats count as read by the first one, so what was computed of them stays valid.
        """
        return self._read_by if self.format in _PLAIN_TIFF else ""

    @read_by.setter
    def read_by(self, text: str) -> None:
        self._read_by = text

    def close(self) -> None:
        """Release the file; reading afterwards raises `SlideError`."""
        super().close()
        self._handle.close()

    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Image.Image:
        handle = self._handle
        try:
            return handle.read_region(xy, level, size)
        except openslide.OpenSlideError:
            return self._read_alone(handle, level, xy, size)

    def _read_coarse(self, level: int, scale: float) -> tuple[Image.Image, Box] | None:
        """Return a level of JPEG or JPEG 2000 tiles as its decoder reduces it."""
        if self.format not in _PLAIN_TIFF:
            return None
        try:
            with self._path.open("rb") as file:
                found = reduced_page(file, self.levels[level][:2], scale)
        except OSError:  # it vanished, as reading it will report
            return None
        return (found.image, found.box) if found else None

    def _read_alone(
        self, failed: openslide.OpenSlide, level: int, xy: tuple[int, int], size: tuple[int, int]
    ) -> Image.Image:
        """Read once more on a fresh handle that no other thread uses.

        An error makes every later call on a handle fail, in all threads, so the faulty region may be another thread's.
        The shared handle is replaced but not closed, because other threads may be using it: it is released with its
        last reference.
        """
        alone = self._reopen()
        try:
            region = alone.read_region(xy, level, size)
        except openslide.OpenSlideError as error:
            alone = self._reopen()
            raise RegionError(
                f"a region of slide {self.id!r} at {xy} (level {level}) cannot be decoded ({message(error)})",
                "copy the file again if many regions fail",
            ) from error
        finally:
            with self._swapping:
                if self._handle is failed:
                    self._handle = alone
        return region

    def _reopen(self) -> openslide.OpenSlide:
        try:
            return openslide.OpenSlide(self._path)
        except openslide.OpenSlideError as error:
            raise damaged(self._path, error) from error


def _colour(text: str) -> tuple[int, int, int]:
    """Return the background colour a file states as RRGGBB; white if it states none."""
    try:
        red, green, blue = bytes.fromhex(text)
    except ValueError:
        return _WHITE
    return red, green, blue
