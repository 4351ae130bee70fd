"""Read the pixels of selected patches, a bounded number at a time, and count those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slideseek.errors import RegionError, SlideError
from slideseek.interfaces import Slide
from slideseek.types import Int64, Patches, UInt8

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
        rows: list[int] = []
        images: list[UInt8] = []
        for row in range(start, min(start + READ_AT_ONCE, len(patches))):
            x, y = patches.xy[row]
            try:
                image = slide.read((int(x), int(y)), side, float(patches.mpp[row]) * patches.size / side)
            except RegionError as error:
                unreadable += 1
                if unreadable > allowed:
                    raise SlideError(
                        f"{unreadable} of the first {row + 1} patches cannot be read,"
                        f" at most {allowed} of {len(patches)} may fail ({error.cause})",
                        "the file is damaged: copy the slide again from its source",
                    ) from error
                continue
            rows.append(row)
            images.append(image)
        if rows:
            yield np.array(rows, np.int64), np.stack(images)
