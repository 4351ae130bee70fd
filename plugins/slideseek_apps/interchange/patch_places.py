"""Turn the coords of a feature file into patches of a known side and resolution."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slideseek.errors import SlideError
from slideseek.slides.magnification import nominal_mpp
from slideseek.types import Float64, Int32, Patches
from slideseek_apps.interchange.feature_file import LARGEST, FeatureFile

UNKNOWN_MPP = 1.0
"""Assumed when the resolution of a slide is not stated. Lengths are then in level-0 pixels."""

ABOVE = -1
"""y of the made-up positions of features without coords: above the slide, so never mistaken for a real position."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Patches, the slide's µm per level-0 pixel, and which values were guessed: `spacing`, `extent`, `mpp`."""

    patches: Patches
    slide_mpp: float
    guessed: frozenset[str] = frozenset()


def place(slide_id: str, file: FeatureFile, xy: Int32, slide_mpp: float | None, extent: float | None) -> Placed:
    """Make the patches of a file.

    slide_mpp: µm per level-0 pixel, if known from a better source than the file. extent: side of a patch in level-0
    pixels, for a file that does not state it; without it the spacing of the patches is used.
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


def to_level_0(
    file: FeatureFile, places: Float64, slide_mpp: float | None, patch_mpp: float | None
) -> tuple[FeatureFile, Int32]:
    """Convert the positions of a file to level-0 pixels through the slide's µm per pixel; return both.

    patch_mpp: µm per pixel at which the patches were read, for a file whose positions are in such pixels and that does
    not state it. A resolution that is needed and unknown is a `SlideError`.
    """
    unit = file.unit or patch_mpp
    if not unit:
        raise SlideError(
            "its positions are in pixels as the patches were read, at a resolution that it does not state",
            "pass --patch-mpp with the µm per pixel that its tool was given",
        )
    mpp = slide_mpp or file.slide_mpp
    if not mpp:
        raise SlideError(
            "its positions are not in level-0 pixels, and the slide's resolution is unknown",
            "state it in an `mpp` column of --manifest, or add the slide file first",
        )
    pixels = np.rint(places * (unit / mpp))
    if len(pixels) and np.abs(pixels).max() > LARGEST:
        raise SlideError("its positions are outside any slide", "check the slide's mpp")
    each = file.mpp if file.mpp is not None else np.full(len(pixels), unit)
    return replace(file, mpp=each, slide_mpp=mpp), pixels.astype(np.int32)


def spacing(xy: Int32) -> int:
    """Return the most common step between neighbours in a column or row of patches, in level-0 pixels, or 0.

    Neighbours share a coordinate, so it does not matter if the grid starts at another pixel in each piece of tissue.
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
    """Return made-up positions for features without coords: distinct, in the file's order, above any slide."""
    xy = np.full((rows, 2), ABOVE, dtype=np.int32)
    xy[:, 0] = np.arange(rows)
    return xy
