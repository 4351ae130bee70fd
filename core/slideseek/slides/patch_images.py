"""Read the pixels of selected patches, a bounded number at a time, and count what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slideseek.errors import RegionError, SlideError
from slideseek.interfaces import Slide
from slideseek.types import Int64, Patches, UInt8

READ_AT_ONCE = 32
"""Patches held together: fixed, so that a result cannot depend on how work was cut up."""

MAX_UNREADABLE = 0.01
"""Share of a slide's patches that may be unreadable and left out; beyond it the slide fails."""


def read_mpp(patches: Patches, side: int) -> float:
    """Return the finest resolution, in µm per pixel, that patches are read at when read `side` pixels wide."""
    return float(patches.mpp.min()) * patches.size / side


def patch_images(
    slide: Slide, patches: Patches, side: int, max_unreadable: float = MAX_UNREADABLE
) -> Iterator[tuple[Int64, UInt8]]:
    """Yield (rows, images) until all patches are read: int64 (m,) positions in `patches`, uint8 (m, side, side, 3).

    side: pixels each patch is read at; its field is that of `patches` whatever the side. A patch that cannot be
    decoded is left out; when more than `max_unreadable` of all cannot, a `SlideError` is raised.
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
                        f" {allowed} of {len(patches)} may be ({error.cause})",
                        "copy the slide again from its source; it is damaged",
                    ) from error
                continue
            rows.append(row)
            images.append(image)
        if rows:
            yield np.array(rows, np.int64), np.stack(images)
