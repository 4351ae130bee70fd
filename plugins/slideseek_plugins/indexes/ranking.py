"""Choose the k nearest slides by (distance, slide id), exact at ties."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

import numpy as np

from slideseek.types import Float64, Hit, Int64


def nearest(distances: Float64, slots: Int64, ids: Sequence[str], k: int) -> list[Hit]:
    """Return the k nearest, nearest first, equal distances by slide id.

    distances, slots: (n,) side by side; ids is indexed by slot. Every slide tied at the cut is compared by id, so a
    partial sort never decides between equals.
    """
    if len(distances) > k:
        cut = np.partition(distances, k - 1)[k - 1]
        below = np.flatnonzero(distances < cut).tolist()
        tied = np.flatnonzero(distances == cut).tolist()
        chosen = below + nsmallest(k - len(below), tied, key=lambda at: ids[slots[at]])
    else:
        chosen = list(range(len(distances)))
    ranked = sorted((float(distances[at]), ids[slots[at]]) for at in chosen)
    return [Hit(slide_id, distance) for distance, slide_id in ranked]
