"""Choose the k nearest slides by (distance, slide id), exact at ties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slideseek.types import Float64, Hit, Int64


def nearest(distances: Float64, slots: Int64 | None, ids: Sequence[str], k: int) -> list[Hit]:
    """Return the k nearest, nearest first, equal distances by slide id.

    distances: (n,). slots: (n,), the slot of each distance, or None when distance i belongs to slot i. ids is indexed
    by slot. Every slide tied at the cut is compared by id, so a partial sort never decides between equals.
    """
    if len(distances) > k:
        places = np.flatnonzero(distances <= np.partition(distances, k - 1)[k - 1])
        slots = places if slots is None else slots[places]
        distances = distances[places]
    names = ids if slots is None else [ids[slot] for slot in slots.tolist()]
    return [Hit(slide_id, distance) for distance, slide_id in sorted(zip(distances.tolist(), names))[:k]]
