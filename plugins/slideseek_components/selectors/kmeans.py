"""k-means whose result depends on the points and the seed, not on the number of threads."""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from slideseek.types import Float64, Int64
from slideseek_components.selectors.small_kmeans import DIMENSIONS, MOST_PAIRS, small_kmeans

STARTS = 10
"""Restarts of one clustering; the best is kept."""

_limiting = threading.Lock()
"""Thread limits are global to the process: two threads that set and restore them at once would leave them wrong."""


def kmeans(points: Float64, k: int, seed: int, sample: int = 0) -> tuple[Int64, Float64]:
    """Cluster `points` (n, d) and return the cluster of each, int64 (n,), and the centres, float64 (k', d).

    k' is `k`, or the number of distinct points if there are fewer. sample: learn from about this many points, evenly
    taken from their order, if there are more; 0 for all.
    """
    every = len(points) // sample if sample else 0
    if every > 1:
        _, centres = kmeans(points[::every], k, seed)
        return np.argmin(((points[:, None] - centres) ** 2).sum(axis=2), axis=1).astype(np.int64), centres
    k = min(k, len(np.unique(points, axis=0)))
    if len(points) * k <= MOST_PAIRS and points.shape[1] in DIMENSIONS:
        found = small_kmeans(points, k, seed, STARTS)
        if found is not None:
            return found
    from sklearn.cluster import KMeans  # takes seconds, and most slides do without it

    # Several threads would add their partial sums in the order they finish: the last bits of centres would differ.
    with _limiting, _pools().limit(limits=1):
        model = KMeans(k, n_init=STARTS, random_state=seed, algorithm="lloyd").fit(points)
    return model.labels_.astype(np.int64), np.asarray(model.cluster_centers_, dtype=np.float64)


@cache
def _pools() -> ThreadpoolController:
    """Return the thread pools of the loaded libraries; finding them takes as long as a clustering."""
    return ThreadpoolController()
