"""Pictures of slides for the browser: tiles of a Deep Zoom pyramid, thumbnails and single fields, all as JPEG."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from cachetools import TTLCache
from PIL import Image

from slideseek.archive.archive import Archive
from slideseek.archive.file_changes import content_changed
from slideseek.errors import RegionError, SlideError
from slideseek.interfaces import OpenedSlide
from slideseek.slides.limits import READ_SECONDS
from slideseek.slides.reader import open_slide
from slideseek.types import UInt8
from slideseek_apps.viewer.open_slide_cache import OpenSlideCache
from slideseek_apps.viewer.slide_directory import Entry
from slideseek_apps.viewer.tile_cache import TileCache

TILE = 256
OVERVIEW = 512
"""Levels up to this size are cropped from one overview of the whole slide, which also gives the thumbnails.

An overview of twice the width takes four times as long to read from slides with few levels, and a page shows dozens of
thumbnails.
"""

DRAW_SECONDS = 10.0
"""Most seconds of processor time to open a slide or to decode one picture: a few gigapixels. People do not wait longer.
"""

FORGET_SECONDS = 300.0
"""What took a second or more and failed is not tried again for so long: it would hold up other pictures each time."""

MAX_LEVEL = 40
QUALITY = 85
_UNREADABLE, _HATCH = (232, 232, 236), (179, 38, 30)

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Grid:
    """The tiles of a slide: width and height in pixels of the finest level, halved per level down to 1.

    The frame is level 0 stretched to square pixels: multiply level-0 coordinates by `stretch`.
    """

    width: int
    height: int
    stretch: tuple[float, float]

    @classmethod
    def of(cls, slide: OpenedSlide) -> Grid:
        """Return the grid of an open slide; a slide with non-square pixels is shown in its true shape."""
        across, down = (mpp / slide.mpp for mpp in slide.facts.mpp_xy)
        width, height = slide.dimensions
        return cls(max(1, round(width * across)), max(1, round(height * down)), (across, down))

    @property
    def levels(self) -> int:
        """Number of levels; the last one, `levels - 1`, is the finest."""
        return math.ceil(math.log2(max(self.width, self.height))) + 1

    def scale(self, level: int) -> int:
        """Return pixels of the finest level per pixel of `level`."""
        return int(2 ** (self.levels - 1 - level))

    def size(self, level: int) -> tuple[int, int]:
        """Return width and height of a level in its own pixels."""
        return math.ceil(self.width / self.scale(level)), math.ceil(self.height / self.scale(level))

    def shape(self, level: int, column: int, row: int) -> tuple[int, int] | None:
        """Return width and height of a tile, smaller at the right and bottom edge; None if there is no such tile."""
        if not 0 <= level < self.levels or column < 0 or row < 0:
            return None
        width, height = self.size(level)
        left, top = column * TILE, row * TILE
        if left >= width or top >= height:
            return None
        return min(TILE, width - left), min(TILE, height - top)


@dataclass(frozen=True, slots=True)
class Picture:
    """A JPEG. whole: false if a region could not be decoded and is shown hatched. Such a picture must not be cached."""

    jpeg: bytes
    whole: bool = True


class Pictures:
    """Render pictures of an archive's slides from the pyramid only, never from label or macro images."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._slides = OpenSlideCache()
        self._tiles: TileCache[Picture] = TileCache(96 * 2**20, lambda picture: len(picture.jpeg))
        self._overviews: TileCache[UInt8] = TileCache(128 * 2**20, lambda array: array.nbytes)
        self._refused: TTLCache[str, SlideError] = TTLCache(10_000, FORGET_SECONDS)
        self._stopping = False

    def grid(self, entry: Entry) -> tuple[Grid, OpenedSlide]:
        """Return the grid of a slide, and the slide for its metadata, which stays valid after it is closed.

        Raises `SlideError` if the file was replaced: patches would be shown on another picture.
        """
        if content_changed(self._archive, entry.row):
            raise SlideError("the file was replaced since its patches were selected", "run 'slideseek build'")
        with self._lent(entry) as slide:
            return Grid.of(slide), slide

    def tile(self, entry: Entry, level: int, column: int, row: int) -> Picture | None:
        """Return one tile, or None if there is no such tile."""
        name = entry.version, level, column, row
        if (kept := self._tiles.get(name)) is not None:
            return kept
        with self._lent(entry) as slide:
            grid = Grid.of(slide)
            shape = grid.shape(level, column, row)
            if shape is None:
                return None
            if max(grid.size(level)) <= OVERVIEW:
                picture = Picture(_jpeg(self._cut(entry, slide, grid.size(level), (column * TILE, row * TILE), shape)))
            else:
                step = TILE * grid.scale(level)
                corner = round(column * step / grid.stretch[0]), round(row * step / grid.stretch[1])
                picture = _read(slide, corner, TILE, slide.mpp * grid.scale(level), shape)
        if picture.whole:
            self._tiles.put(name, picture)
        return picture

    def thumbnail(self, entry: Entry, side: int) -> Picture:
        """Return the whole slide, its longer side at most `side` pixels."""
        name = entry.version, "thumbnail", side
        if (kept := self._tiles.get(name)) is not None:
            return kept
        with self._lent(entry) as slide:
            grid = Grid.of(slide)
            scale = max(1.0, max(grid.width, grid.height) / side)
            size = max(1, round(grid.width / scale)), max(1, round(grid.height / scale))
            picture = Picture(_jpeg(self._cut(entry, slide, size, (0, 0), size)))
        self._tiles.put(name, picture)
        return picture

    def field(self, entry: Entry, x: int, y: int, extent: float, side: int) -> Picture:
        """Return the square at (x, y) whose side is `extent`, all level-0 pixels, drawn `side` pixels wide."""
        with self._lent(entry) as slide:
            return _read(slide, (x, y), side, slide.mpp * extent / side, (side, side))

    def interrupt(self) -> None:
        """End what is being drawn, and draw nothing more."""
        self._stopping = True
        self._slides.interrupt()

    def close(self) -> None:
        """Close the slides."""
        self._slides.close()

    @contextmanager
    def _lent(self, entry: Entry) -> Iterator[OpenedSlide]:
        if self._stopping:
            raise SlideError("the server is being stopped", "start it again")
        limit = READ_SECONDS.set(DRAW_SECONDS)
        try:
            opened = partial(self._once, entry.version, partial(self._open, entry))
            with self._slides.lend(entry.version, opened) as slide:
                yield slide
        finally:
            READ_SECONDS.reset(limit)

    def _once(self, name: str, work: Callable[[], Made]) -> Made:
        """Return what `work` makes; if it failed after a second or more, raise its error at once for a while."""
        if (refused := self._refused.get(name)) is not None:
            raise SlideError(refused.cause, refused.fix)
        begun = time.monotonic()
        try:
            return work()
        except SlideError as error:
            if time.monotonic() - begun > 1 and not self._stopping:
                self._refused[name] = error
            raise

    def _open(self, entry: Entry) -> OpenedSlide:
        return open_slide(self._archive.slide_path(entry.record), entry.record.id, entry.record.mpp)

    def _cut(
        self, entry: Entry, slide: OpenedSlide, size: tuple[int, int], corner: tuple[int, int], shape: tuple[int, int]
    ) -> UInt8:
        overview = self._overviews.get(entry.version)
        if overview is None:
            overview = self._once(f"{entry.version} overview", lambda: slide.thumbnail(OVERVIEW))
            self._overviews.put(entry.version, overview)
        image = Image.fromarray(overview)
        if image.size != size:
            image = image.resize(size, Image.Resampling.BOX if size[0] * 2 <= image.width else Image.Resampling.BICUBIC)
        left, top = corner
        return np.asarray(image.crop((left, top, left + shape[0], top + shape[1])))


def _read(slide: OpenedSlide, corner: tuple[int, int], side: int, mpp: float, shape: tuple[int, int]) -> Picture:
    try:
        return Picture(_jpeg(slide.read(corner, side, mpp)[: shape[1], : shape[0]]))
    except RegionError:
        blank = np.empty((shape[1], shape[0], 3), dtype=np.uint8)
        blank[:] = _UNREADABLE
        blank[np.add.outer(np.arange(shape[1]), np.arange(shape[0])) % 20 < 2] = _HATCH
        return Picture(_jpeg(blank), whole=False)


def _jpeg(rgb: UInt8) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rgb)).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
