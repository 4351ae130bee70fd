"""Turn the places a feature file gives into patches of a known side and resolution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.slides.resolution import nominal_mpp
from slideseek.types import Int32, Patches
from slideseek_apps.interchange.feature_file import FeatureFile

UNKNOWN_MPP = 1.0
"""Stands in for the resolution of a slide nobody states: level-0 pixels then are the unit of length."""

ABOVE = -1
"""Row of the places made up for features without any: above the slide's first row, so never taken for a real place."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Patches, the slide's µm per level-0 pixel, and what had to be guessed: `spacing`, `extent`, `mpp`."""

    patches: Patches
    slide_mpp: float
    guessed: frozenset[str] = frozenset()


def place(slide_id: str, file: FeatureFile, xy: Int32, slide_mpp: float | None, extent: float | None) -> Placed:
    """Make the patches of a file.

    slide_mpp: µm per level-0 pixel where it is known better than the file knows it. extent: side of a patch in
    level-0 pixels, for a file that states none; else it is taken from the patches' spacing.
    """
    guessed = set()
    mpp = slide_mpp or file.slide_mpp or (nominal_mpp(file.magnification) if file.magnification else 0.0)
    if not mpp:
        mpp = UNKNOWN_MPP
        guessed.add("mpp")
    side = file.extent or extent or 0.0
    if file.mpp is not None and file.side:
        return Placed(Patches(slide_id, xy, file.side, file.mpp), mpp, frozenset(guessed))
    if not side:
        side = float(spacing(xy))
        guessed.add("spacing" if side else "extent")
        side = side or float(file.side or 1)
    pixels = file.side or max(1, round(side))
    return Placed(Patches.at(slide_id, xy, pixels, mpp * side / pixels), mpp, frozenset(guessed))


def spacing(xy: Int32) -> int:
    """Return the most common step between neighbours in a column or row of patches, in level-0 pixels; 0 without any.

    Neighbours share a coordinate, so grids that start at another pixel in every piece of tissue do not mislead.
    """
    steps = []
    for along in (0, 1):
        line, position = xy[:, 1 - along].astype(np.int64), xy[:, along].astype(np.int64)
        order = np.lexsort((position, line))
        step = np.diff(position[order])[np.diff(line[order]) == 0]
        steps.append(step[step > 0])
    values, counts = np.unique(np.concatenate(steps), return_counts=True)
    return int(values[counts.argmax()]) if len(values) else 0


def above_the_slide(rows: int) -> Int32:
    """Return places for features without any: distinct, in the file's order, in a row no slide has."""
    xy = np.full((rows, 2), ABOVE, dtype=np.int32)
    xy[:, 0] = np.arange(rows)
    return xy
