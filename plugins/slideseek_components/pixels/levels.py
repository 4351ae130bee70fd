"""The levels of a pyramid: which one to read, and where a box of level 0 lies in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MIN_LEVEL_SIDE = 400
"""Least width for a downsample computed from sizes: its error is one pixel, at 400 pixels 0.25 % of the width."""

LEVEL_SLACK = 1.005
"""Enlargement allowed before a finer level is read: µm per pixel is rarely known to half a percent."""

NEAR_ENOUGH = 1.24
"""How much coarser than asked for a level may be where the size is free: with the slack above, a quarter."""

_MIN_BOX = 1e-3


class Level(NamedTuple):
    """Width and height in pixels of a pyramid level, and level-0 pixels per level pixel."""

    width: int
    height: int
    downsample: float


class Box(NamedTuple):
    """A rectangle, with edges in pixels of some frame, x to the right and y down; edges may be fractional."""

    left: float
    top: float
    right: float
    bottom: float

    def outside(self, dimensions: tuple[int, int]) -> bool:
        """Return whether no part of the box lies within (0, 0, width, height)."""
        return self.right <= 0 or self.bottom <= 0 or self.left >= dimensions[0] or self.top >= dimensions[1]


class Window(NamedTuple):
    """What to decode of a level (origin in level-0 pixels, size in level pixels) and the box inside it to resample."""

    origin: tuple[int, int]
    size: tuple[int, int]
    box: Box


def exact_downsample(base: Level, width: int, height: int, ratio: float) -> float:
    """Return the factor by which a level was reduced.

    ratio: mean of the size ratios, as OpenSlide reports it. A level of 1649 pixels made from 3299 by
    halving has the ratio 2.0006 and the factor 2: writers drop the odd pixel, they do not stretch. Taking the ratio
    would shift the far end of such a slide by the width of a cell.
    """
    whole = round(ratio)
    sizes = ((base.width, width), (base.height, height))
    if whole >= 1 and all(full // whole <= small <= -(-full // whole) for full, small in sizes):
        return float(whole)
    return ratio


def choose_level(levels: Sequence[Level], scale: float) -> int:
    """Return the coarsest level with at least the requested detail; `scale` is level-0 pixels per output pixel."""
    best = 0
    for index, level in enumerate(levels):
        fine_enough = level.downsample <= scale * LEVEL_SLACK
        exact_enough = level.downsample.is_integer() or min(level.width, level.height) >= MIN_LEVEL_SIDE
        if fine_enough and exact_enough and level.downsample > levels[best].downsample:
            best = index
    return best


@dataclass(frozen=True, slots=True)
class Placement:
    """Where level 0 lies in a level.

    address: the factor by which the reader converts a level-0 origin to level pixels. It may differ from the level's
    downsample. A region then starts between two pixels of the level and the reader interpolates; the box of a window
    takes this into account.
    """

    base: Level
    level: Level
    address: float

    def window(self, part: Box, whole: Box, size: tuple[int, int], *, margin: bool = True) -> Window:
        """Return what to decode to resample `part` (level-0 pixels) to `size` (w, h) output pixels.

        margin: also decode the pixels the filter needs beyond the part, so neighbouring patches join without a seam.
        Beyond the edge of the slide it does so only where `whole` reaches there; otherwise the rim of a slide would
        turn white.
        """
        lengths = (self.base.width, self.level.width), (self.base.height, self.level.height)
        x, width, left, right = self._span(part[0::2], whole[0::2], lengths[0], size[0], margin)
        y, height, top, bottom = self._span(part[1::2], whole[1::2], lengths[1], size[1], margin)
        return Window((x, y), (width, height), Box(left, top, right, bottom))

    def _span(
        self, part: tuple[float, ...], whole: tuple[float, ...], lengths: tuple[int, int], pixels: int, margin: bool
    ) -> tuple[int, int, float, float]:
        """Return one axis of a window: origin (level 0), length (level), and the edges of the box from the origin."""
        base, level = lengths
        last = self._end(part[1], base, level)
        first = min(part[0] / self.level.downsample, last - _MIN_BOX)
        # Pixels that are copied unchanged need no neighbours.
        copied = first.is_integer() and last - first == pixels
        support = max(1.0, (last - first) / pixels) if margin and not copied else 0.0
        lowest = min(0.0, whole[0] / self.level.downsample)
        highest = max(float(level), self._end(whole[1], base, level))
        origin = math.floor(math.floor(max(first - support, lowest)) * self.address)
        start = origin / self.address
        length = max(1, math.ceil(min(last + support, highest) - start))
        return origin, length, max(0.0, first - start), min(float(length), last - start)

    def _end(self, edge: float, base: int, level: int) -> float:
        """Convert a right or bottom edge from level 0 to the level.

        A level of floor(base / 2) pixels ends half a pixel before base / 2. An edge inside the slide must not lie
        beyond that end, or a white rim appears.
        """
        scaled = edge / self.level.downsample
        return min(scaled, float(level)) if edge <= base else scaled
