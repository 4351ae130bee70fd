"""A rectangle of a slide, seen as a slide of its own."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from slideseek.errors import UsageError
from slideseek.interfaces import Slide
from slideseek.types import UInt8


class RegionSlide:
    """Show `width` x `height` level-0 pixels of a slide from (x, y) on, so that any selector can work on a region.

    Coordinates are the region's own: add `origin` to get those of the slide.
    """

    def __init__(self, slide: Slide, x: int, y: int, width: int, height: int) -> None:
        across, down = slide.dimensions
        if width < 1 or height < 1 or x < 0 or y < 0 or x + width > across or y + height > down:
            raise UsageError(
                f"the region {x},{y},{width},{height} is not inside slide {slide.id!r} of {across} x {down} px",
                "give x,y,w,h of a rectangle inside the slide, in level-0 pixels",
            )
        self._slide = slide
        self.origin = x, y
        self._size = width, height

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
        """A region is drawn by hand: the slide's own outline, in other coordinates, does not apply."""
        return None

    def read(self, xy: tuple[int, int], size: int, mpp: float) -> UInt8:
        """Read a patch; what lies beyond the region shows the slide."""
        return self._slide.read((xy[0] + self.origin[0], xy[1] + self.origin[1]), size, mpp)

    def thumbnail(self, side: int) -> UInt8:
        """Return the region at low resolution, the longer side at most `side` pixels."""
        longest = max(self._size)
        side = min(side, longest)
        square = self._slide.read(self.origin, side, self.mpp * longest / side)
        width, height = (max(1, round(part * side / longest)) for part in self._size)
        return square[:height, :width]

    def __enter__(self) -> Slide:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slide.__exit__(kind, error, trace)
