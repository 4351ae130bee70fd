"""Read the pixels of selected patches, a bounded number at a time, and count those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slideseek.errors import RegionError, SlideError
from slideseek.interfaces import ReadsMany, Slide
from slideseek.types import Float64, Int32, Int64, Patches, UInt8

READ_AT_ONCE = 32
"""Patches per batch: fixed, so results do not depend on how the work is divided."""

MAX_UNREADABLE = 0.01
"""Share of a slide's patches that may be unreadable and left out; above it the slide fails."""


WELL_REPRESENTED = 0.8
"""Share of a slide's tissue that should lie in patches to choose from; below it the slide has a note."""

MAX_PADDING = 0.5
"""Share of a patch outside the slide above which the slide has a note."""


def read_mpp(patches: Patches, side: int) -> float:
    """Return the finest resolution, in µm per pixel, at which patches are read if read `side` pixels wide."""
    return float(patches.mpp.min()) * patches.size / side


def selection_notes(slide: Slide, patches: Patches) -> list[str]:
    """Return notes on what patches miss or add: tissue in none of them, and patches that mostly show padding."""
    notes, share = [], patches.represented
    if share is not None and len(patches) and share < WELL_REPRESENTED:
        notes.append(
            f"{patches.left_out_um2:,.0f} of {patches.tissue_um2:,.0f} µm² of tissue lie in no patch"
            f" ({1 - share:.0%}): smaller patches represent more of it"
        )
    side = (patches.size * patches.mpp / slide.mpp)[:, None]
    shown = np.clip(np.minimum(patches.xy + side, slide.dimensions) - np.maximum(patches.xy, 0), 0, None)
    padding = 1 - (shown / side).prod(axis=1)
    if count := int((padding > MAX_PADDING).sum()):
        field = patches.size * float(patches.mpp.max())
        notes.append(
            f"{count} of {len(patches)} patches lie up to {padding.max():.0%} outside the slide and show padding there:"
            f" use patches smaller than {field:g} µm, or check the resolution of the slide"
        )
    return notes


def patch_images(
    slide: Slide,
    patches: Patches,
    side: int,
    max_unreadable: float = MAX_UNREADABLE,
    first: int = 0,
    unreadable: int = 0,
) -> Iterator[tuple[Int64, UInt8]]:
    """Yield (rows, images) until all patches are read: int64 (m,) positions in `patches`, uint8 (m, side, side, 3).

    side: pixels each patch is read at; the field of view does not depend on it. A patch that cannot be decoded is left
    out; if more than `max_unreadable` of all patches cannot, a `SlideError` is raised. first: patch to begin with, a
    multiple of `READ_AT_ONCE`; `unreadable` of those before it could not be decoded.
    """
    allowed = int(max_unreadable * len(patches))
    for start in range(first, len(patches), READ_AT_ONCE):
        some = slice(start, min(start + READ_AT_ONCE, len(patches)))
        images, errors = _read(slide, patches.xy[some], side, patches.mpp[some] * patches.size / side)
        for at, error in errors.items():
            unreadable += 1
            if unreadable > allowed:
                raise SlideError(
                    f"{unreadable} of the first {start + at + 1} patches cannot be read,"
                    f" at most {allowed} of {len(patches)} may fail ({error.cause})",
                    "the file is damaged: copy the slide again from its source",
                ) from error
        if len(images):
            yield np.delete(np.arange(some.start, some.stop), list(errors)), images


def _read(slide: Slide, xy: Int32, side: int, mpp: Float64) -> tuple[UInt8, dict[int, RegionError]]:
    """Read squares as `ReadsMany.read_many` does, of any slide."""
    if isinstance(slide, ReadsMany):
        return slide.read_many(xy, side, mpp)
    images, errors = list[UInt8](), dict[int, RegionError]()
    for at, (x, y) in enumerate(xy):
        try:
            images.append(slide.read((int(x), int(y)), side, float(mpp[at])))
        except RegionError as error:
            errors[at] = error
    return np.stack(images) if images else np.empty((0, side, side, 3), np.uint8), errors
