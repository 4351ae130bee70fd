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


def read_mpp(patches: Patches, side: int) -> float:
    """Return the finest resolution, in µm per pixel, at which patches are read if read `side` pixels wide."""
    return float(patches.mpp.min()) * patches.size / side


def patch_images(
    slide: Slide, patches: Patches, side: int, max_unreadable: float = MAX_UNREADABLE
) -> Iterator[tuple[Int64, UInt8]]:
    """Yield (rows, images) until all patches are read: int64 (m,) positions in `patches`, uint8 (m, side, side, 3).

    side: pixels each patch is read at; the field of view does not depend on it. A patch that cannot be decoded is left
    out; if more than `max_unreadable` of all patches cannot, a `SlideError` is raised.
    """
    allowed = int(max_unreadable * len(patches))
    unreadable = 0
    for start in range(0, len(patches), READ_AT_ONCE):
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
