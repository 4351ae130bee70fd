"""Whole-slide formats through OpenSlide."""

from __future__ import annotations

import threading
from pathlib import Path

import openslide
from PIL import Image

from slideseek.errors import SlideError
from slideseek.slides.image_reader import one_line
from slideseek.slides.pyramid import PyramidSlide
from slideseek.slides.resampling import Level
from slideseek.slides.resolution import objective_power, resolve


class OpenSlideReader(PyramidSlide):
    """A slide OpenSlide reads. Several threads may read at once: OpenSlide handles are thread-safe."""

    def __init__(self, path: Path, slide_id: str, mpp: float | None) -> None:
        self._path = path
        self._handle = openslide.OpenSlide(path)
        self._swapping = threading.Lock()
        properties = dict(self._handle.properties)
        levels = [
            Level(width, height, downsample)
            for (width, height), downsample in zip(self._handle.level_dimensions, self._handle.level_downsamples)
        ]
        super().__init__(
            slide_id,
            levels,
            resolve(properties, mpp, path.name),
            format=properties.get(openslide.PROPERTY_NAME_VENDOR, "openslide"),
            objective=objective_power(properties),
            background=_background(properties.get(openslide.PROPERTY_NAME_BACKGROUND_COLOR, "")),
        )
        self.properties = properties

    def close(self) -> None:
        """Release the file; reading afterwards raises `SlideError`."""
        super().close()
        self._handle.close()

    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Image.Image:
        handle = self._handle
        try:
            return handle.read_region(xy, level, size)
        except openslide.OpenSlideError:
            return self._read_again(handle, level, xy, size)

    def _read_again(
        self, failed: openslide.OpenSlide, level: int, xy: tuple[int, int], size: tuple[int, int]
    ) -> Image.Image:
        """Read on a fresh handle of our own.

        An error poisons a handle for all threads, so the failure may belong to another thread's region: only a fresh
        private handle tells. The shared handle is replaced but not closed, because others may be inside it; it is
        released with its last reference.
        """
        private = openslide.OpenSlide(self._path)
        try:
            return private.read_region(xy, level, size)
        except openslide.OpenSlideError as error:
            private = openslide.OpenSlide(self._path)
            with self._counting:
                self.unreadable += 1
            raise SlideError(
                f"a region of slide {self.id!r} at {xy} (level {level}) cannot be decoded ({one_line(error)})",
                "copy the file again if many regions fail",
            ) from error
        finally:
            with self._swapping:
                if self._handle is failed:
                    self._handle = private


def _background(text: str) -> tuple[int, int, int]:
    """Return the background colour a file names (RRGGBB), white when it names none."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return 255, 255, 255
    return (value[0], value[1], value[2]) if len(value) == 3 else (255, 255, 255)
