"""Choose the k nearest slides by (distance, slide id), exact at ties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slideseek.types import Float64, Hit, Int64


def nearest(slots: Int64, distances: Float64, ids: Sequence[str], k: int) -> list[Hit]:
    """Return the k nearest, nearest first, equal distances by slide id.

    slots, distances: (n,), side by side; ids is indexed by slot. Every slide tied at the cut is compared by id, so a
    partial sort never decides between equals.
    """
    if len(distances) > 4 * k:  # else sorting all is quicker
        places = np.flatnonzero(distances <= np.partition(distances, k - 1)[k - 1])
        slots, distances = slots[places], distances[places]
    names = [ids[slot] for slot in slots.tolist()]
    return [Hit(slide_id, distance) for distance, slide_id in sorted(zip(distances.tolist(), names))[:k]]
