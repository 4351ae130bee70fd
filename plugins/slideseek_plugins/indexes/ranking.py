"""Choose the k nearest slides by (distance, slide id), exact at ties."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

import numpy as np

from slideseek.types import Float64, Hit, Int64


def nearest(distances: Float64, slots: Int64 | None, ids: Sequence[str], k: int) -> list[Hit]:
    """Return the k nearest, nearest first, equal distances by slide id.

    distances: (n,). slots: (n,), the slot of each distance, or None when distance i belongs to slot i. ids is indexed
    by slot. Every slide tied at the cut is compared by id, so a partial sort never decides between equals.
    """
    places = np.arange(len(distances))
    if len(distances) > k:
        cut = np.partition(distances, k - 1)[k - 1]
        places = np.flatnonzero(distances <= cut)
    chosen = places if slots is None else slots[places]
    pairs = zip(distances[places].tolist(), map(ids.__getitem__, chosen.tolist()))
    return [Hit(slide_id, distance) for distance, slide_id in nsmallest(k, pairs)]
