"""Read any square of a slide at any resolution from a pyramid of levels, with padding outside the slide.

This is the part every reader shares.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from PIL import Image

from slideseek.boundary import Owner
from slideseek.errors import RegionError, SlideError
from slideseek.interfaces import OpenedSlide
from slideseek.slides.limits import MAX_OUTPUT_PIXELS, MAX_SOURCE_PIXELS
from slideseek.types import SlideFacts, UInt8
from slideseek_components.pixels.levels import NEAR_ENOUGH, Box, Level, Placement, Window, choose_level
from slideseek_components.pixels.resampling import blocks, flatten, quarters, resize
from slideseek_components.pixels.resolution import Resolution

_SMALLEST_BLOCK = 512
"""Width in level pixels at which an unreadable block is given up instead of split: about the size of a tile."""


class PyramidSlide(ABC):
    """A slide made of levels. Implements `slideseek.interfaces.Slide`; a reader adds only `_read_level`.

    unreadable: regions that could not be decoded so far. filled: pixels read so far that show the background because
    they lie outside the slide or are transparent in it. owner: the reader that opened it, which answers for its
    errors. read_by: what counts of that reader's code, "" for a bundled one. addresses: see `Placement`. Several
    threads may read at once.
    """

    def __init__(
        self,
        slide_id: str,
        levels: Sequence[Level],
        resolution: Resolution,
        *,
        format: str,  # noqa: A002 - the public name of the attribute
        objective: float | None = None,
        background: tuple[int, int, int] = (255, 255, 255),
        addresses: Sequence[float] | None = None,
    ) -> None:
        self.id = slide_id
        self.levels: tuple[Level, ...] = tuple(levels)
        self.resolution = resolution
        self.format = format
        self.objective = objective
        self.background = background
        self.contours: Path | None = None
        self.unreadable = 0
        self.filled = 0
        self.owner: Owner | None = None
        self.read_by = ""
        self.addresses = tuple(addresses or (level.downsample for level in levels))
        self._nbytes = 0
        self._closed = False
        self._counting = threading.Lock()

    @property
    def dimensions(self) -> tuple[int, int]:
        """Width and height in level-0 pixels."""
        return self.levels[0].width, self.levels[0].height

    @property
    def mpp(self) -> float:
        """µm per level-0 pixel (geometric mean of the two axes)."""
        return self.resolution.mpp

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about this slide for the user."""
        return self.resolution.notes

    @property
    def facts(self) -> SlideFacts:
        """What is known about the slide besides its pixels."""
        of = self.resolution
        return SlideFacts(self.format, self.objective, (of.mpp_x, of.mpp_y), of.source, self.levels, self._nbytes)

    def add_notes(self, notes: Sequence[str]) -> None:
        """Add notes on how the slide was opened."""
        self.resolution = replace(self.resolution, notes=(*self.resolution.notes, *notes))

    def read(self, xy: tuple[int, int], size: int, mpp: float) -> UInt8:
        """Return RGB uint8 (size, size, 3) of the square whose top-left is `xy` (level-0 pixels), at exactly `mpp`.

        Outside the slide and where it is transparent the background (white unless the file names another) shows.
        A region that cannot be decoded raises `SlideError`; the slide stays usable.
        """
        if size < 1 or not (math.isfinite(mpp) and mpp > 0):
            raise ValueError(f"read: size must be at least 1 and mpp above 0, not {size} and {mpp}")
        scale_x, scale_y = mpp / self.resolution.mpp_x, mpp / self.resolution.mpp_y
        level = choose_level(self.levels, min(scale_x, scale_y))
        downsample = self.levels[level].downsample
        source = size * size * max(1.0, scale_x / downsample) * max(1.0, scale_y / downsample)
        if size * size > MAX_OUTPUT_PIXELS or source > MAX_SOURCE_PIXELS:
            raise SlideError(
                f"a patch of {size} px at {mpp:g} µm/px of slide {self.id!r} needs {source:.2g} pixels to be decoded "
                f"(at most {MAX_SOURCE_PIXELS:.2g}, and {MAX_OUTPUT_PIXELS:.2g} in the patch)",
                "use a smaller size or a finer resolution",
            )
        x, y = xy
        try:
            image, filled = self._render(Box(x, y, x + size * scale_x, y + size * scale_y), (size, size), level)
        except RegionError:
            self._count(unreadable=1)
            raise
        self._count(filled=filled)
        return image

    def thumbnail(self, side: int) -> UInt8:
        """Return RGB uint8 (h, w, 3) of the whole slide, the longer side at most `side` pixels and never enlarged.

        It is made from the pyramid, never from the label, macro or thumbnail images stored with it. Regions that
        cannot be decoded show the background and are counted in `unreadable`.
        """
        width, height = self.dimensions
        size, scale = self.thumbnail_size(side), max(1.0, max(width, height) / side)
        level = choose_level(self.levels, scale)
        coarse = None if self._closed else self._read_coarse(level, scale / self.levels[level].downsample)
        if coarse is not None:
            return np.array(resize(*coarse, size))
        return self._render(Box(0, 0, width, height), size, level, spare_damage=True)[0]

    def thumbnail_size(self, side: int) -> tuple[int, int]:
        """Return the width and height of a thumbnail."""
        if not 1 <= side <= math.isqrt(MAX_OUTPUT_PIXELS):
            raise ValueError(f"thumbnail: side must be between 1 and {math.isqrt(MAX_OUTPUT_PIXELS)}, not {side}")
        width, height = self.dimensions
        scale = max(1.0, max(width, height) / side)
        return max(1, round(width / scale)), max(1, round(height / scale))

    def nearest_side(self, side: int) -> int:
        """Return the side near `side`, at least 0.8 of it, at which a thumbnail needs the fewest pixels decoded.

        A level a little coarser than asked for is as good as one resampled to it, and has 4 to 16 times fewer pixels
        than the next one.
        """
        longest = max(self.dimensions)
        level = self.levels[choose_level(self.levels, NEAR_ENOUGH * longest / side)]
        return min(side, math.floor(longest / level.downsample))

    def interrupt(self) -> None:  # noqa: B027 - most readers cannot
        """Make reads in progress fail, where the reader can; others go on to their end."""

    def close(self) -> None:
        """Release the file; reading afterwards raises `SlideError`."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Image.Image:
        """Return `size` (w, h) pixels of a level as RGB or RGBA; `xy` is the top-left in level-0 pixels.

        The region may extend beyond the level: pixels outside are transparent.
        """

    def _read_coarse(self, level: int, scale: float) -> tuple[Image.Image, Box] | None:
        """Return a level as a smaller RGB image, reduced by at most `scale`, and the box of it that the level fills.

        For a reader that can decode less than all pixels; by default none can.
        """
        return None

    def _render(self, box: Box, size: tuple[int, int], level: int, *, spare_damage: bool = False) -> tuple[UInt8, int]:
        """Return `box` (level-0 pixels, may be fractional) resampled to `size` (w, h), and the number of filled pixels.

        spare_damage: leave the background where a region cannot be decoded, instead of raising `RegionError`.
        """
        if self._closed:
            raise SlideError(f"slide {self.id!r} is closed", "open it again before reading")
        canvas = np.empty((size[1], size[0], 3), dtype=np.uint8)
        canvas[:] = self.background
        filled = 0
        pending = list(blocks(box, size, self.levels[level].downsample))
        while pending:
            part, cells = pending.pop()
            shape = cells.right - cells.left, cells.bottom - cells.top
            if part.outside(self.dimensions):
                filled += shape[0] * shape[1]
                continue
            try:
                window, region = self._decode(part, box, shape, level)
            except RegionError:
                if not spare_damage:
                    raise
                width = (part.right - part.left) / self.levels[level].downsample
                if min(shape) > 1 and width > _SMALLEST_BLOCK:
                    pending += quarters(part, cells)
                else:
                    self._count(unreadable=1)
                continue
            opaque, alpha = flatten(region, self.background)
            canvas[cells.top : cells.bottom, cells.left : cells.right] = np.asarray(resize(opaque, window.box, shape))
            if alpha is not None:
                filled += int(np.count_nonzero(np.asarray(resize(alpha, window.box, shape)) < 128))
        return canvas, filled

    def _decode(self, part: Box, box: Box, shape: tuple[int, int], level: int) -> tuple[Window, Image.Image]:
        """Decode what `part` of `box` needs from a level."""
        placement = Placement(self.levels[0], self.levels[level], self.addresses[level])
        window = placement.window(part, box, shape)
        try:
            return window, self._read(level, window)
        except RegionError:
            bare = placement.window(part, box, shape, margin=False)
            if bare.size == window.size:
                raise
            # The damage may lie only in the margin: the part itself must not be lost.
            return bare, self._read(level, bare)

    def _read(self, level: int, window: Window) -> Image.Image:
        if self.owner is None:
            return self._read_level(level, window.origin, window.size)
        what = f"reading {self.id!r}"
        return self.owner.call(what, self._read_level, level, window.origin, window.size)

    def _count(self, *, filled: int = 0, unreadable: int = 0) -> None:
        with self._counting:
            self.filled += filled
            self.unreadable += unreadable


def as_pyramid(slide: OpenedSlide) -> PyramidSlide:
    """Return a slide as what it has to be for its levels and its format to be known."""
    if not isinstance(slide, PyramidSlide):
        raise SlideError(f"{slide.id} is a {type(slide).__name__}, not a PyramidSlide", "update the reader's plugin")
    return slide
