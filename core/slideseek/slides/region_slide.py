"""A part of a slide as a slide of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from slideseek.interfaces import Slide
from slideseek.slides.area import Area
from slideseek.slides.polygons import Polygon, fill_polygons
from slideseek.types import UInt8

_DARK = 48
"""Median brightness below which an image is fluorescence: its empty background is black, not white."""


class RegionSlide:
    """Present `width` x `height` level-0 pixels of a slide, from (x, y), as a slide that any selector can use.

    Coordinates are the region's own: add `origin` to get those of the slide. polygons: in the slide's coordinates;
    outside them the thumbnail shows empty background, so tissue is found only inside.
    """

    def __init__(self, slide: Slide, x: int, y: int, width: int, height: int, polygons: Sequence[Polygon] = ()) -> None:
        self._slide = slide
        self.origin = x, y
        self._size = width, height
        self._polygons = [[ring - (x, y) for ring in rings] for rings in polygons]

    @classmethod
    def of(cls, slide: Slide, area: Area) -> RegionSlide:
        """Return an area of a slide as a slide."""
        return cls(slide, *area.box, area.polygons)

    @property
    def id(self) -> str:
        """The slide's id."""
        return self._slide.id

    @property
    def dimensions(self) -> tuple[int, int]:
        """Width and height of the region in level-0 pixels."""
        return self._size

    @property
    def mpp(self) -> float:
        """µm per level-0 pixel."""
        return self._slide.mpp

    @property
    def contours(self) -> Path | None:
        """None: the region replaces the slide's own outline, which is in other coordinates."""
        return None

    def read(self, xy: tuple[int, int], size: int, mpp: float) -> UInt8:
        """Read a patch; beyond the region it shows the rest of the slide."""
        return self._slide.read((xy[0] + self.origin[0], xy[1] + self.origin[1]), size, mpp)

    def thumbnail(self, side: int) -> UInt8:
        """Return the region at low resolution, the longer side at most `side` pixels."""
        longest = max(self._size)
        side = min(side, longest)
        square = self._slide.read(self.origin, side, self.mpp * longest / side)
        width, height = (max(1, round(part * side / longest)) for part in self._size)
        image = square[:height, :width]
        if not self._polygons:
            return image
        inside = fill_polygons(self._polygons, (width / self._size[0], height / self._size[1]), (height, width))
        empty = 255 if np.median(image) >= _DARK else 0
        return np.where(inside[..., None], image, np.uint8(empty))

    def __enter__(self) -> Slide:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slide.__exit__(kind, error, trace)
