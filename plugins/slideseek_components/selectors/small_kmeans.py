"""k-means of few points in two or three dimensions: all restarts at once, with the result of scikit-learn's.

A mosaic clusters some dozens of cells about ten times per slide. scikit-learn spends a hundred times longer on checking
its arguments than on them. The draws, sums and comparisons here are those of its `KMeans(algorithm="lloyd")`, in the
same order, so a slide keeps its patches.
"""

from __future__ import annotations

import numpy as np

from slideseek.types import Float64, Int64

MOST_PAIRS = 9000
"""Points times clusters up to which this is faster than scikit-learn."""

DIMENSIONS = (1, 2, 3)
ITERATIONS = 300
TOLERANCE = 1e-4


def small_kmeans(points: Float64, k: int, seed: int, starts: int) -> tuple[Int64, Float64] | None:
    """Cluster `points` (n, d) and return the cluster of each, int64 (n,), and the centres, float64 (k, d).

    None if clusters ran empty and no other can give a point away.
    """
    middle = points.mean(axis=0)
    x = np.ascontiguousarray(points - middle)
    centres = x[_first_centres(x, k, seed, starts)]
    tolerance = TOLERANCE * float(np.mean(np.var(points, axis=0)))
    labels = np.full((starts, len(x)), -1)
    running = np.arange(starts)
    for _ in range(ITERATIONS):
        assigned = _nearest(x, centres[running])
        means = _means(x, assigned, centres[running])
        if means is None:
            return None
        settled = (assigned == labels[running]).all(axis=1)
        moved = np.sqrt(_squares(means - centres[running])) ** 2
        centres[running], labels[running] = means, assigned
        near = ~settled & (moved.sum(axis=1) <= tolerance)
        if near.any():  # these centres count as final: assign the points to them once more
            labels[running[near]] = _nearest(x, centres[running[near]])
        running = running[~settled & ~near]
        if not len(running):
            break
    else:
        labels[running] = _nearest(x, centres[running])
    best = _best(x, centres, labels)
    return labels[best], centres[best] + middle


def _first_centres(x: Float64, k: int, seed: int, starts: int) -> Int64:
    """Draw the first centres by greedy k-means++: int64 (starts, k), numbers of points."""
    trials = 2 + int(np.log(k))
    draws = np.random.RandomState(seed).random_sample((starts, 1 + (k - 1) * trials))
    norms = np.einsum("ij,ij->i", x, x)
    turned = x.T

    def distances(among: Int64) -> Float64:
        found: Float64 = np.matmul(
            x[among], turned
        )  # of each start by itself, as scikit-learn does: the same last bits
        found *= -2
        found += norms[among][..., None]
        found += norms
        return np.maximum(found, 0, out=found)

    uniform = np.full(len(x), 1 / len(x)).cumsum()
    chosen = np.empty((starts, k), dtype=np.int64)
    chosen[:, 0] = np.minimum(np.searchsorted(uniform / uniform[-1], draws[:, 0], side="right"), len(x) - 1)
    ones, each = np.ones((len(x), 1)), np.arange(starts)
    closest = distances(chosen[:, :1])[:, 0]
    potential = np.array([one @ ones[:, 0] for one in closest])
    for number in range(1, k):
        at = 1 + (number - 1) * trials
        reached, wanted = np.cumsum(closest, axis=1), draws[:, at : at + trials] * potential[:, None]
        among = np.stack([np.searchsorted(*pair) for pair in zip(reached, wanted)])
        np.minimum(among, len(x) - 1, out=among)
        after = distances(among)
        np.minimum(after, closest[:, None], out=after)
        potentials = np.matmul(after, ones)[..., 0]
        best = potentials.argmin(axis=1)
        chosen[:, number], closest, potential = among[each, best], after[each, best], potentials[each, best]
    return chosen


def _nearest(x: Float64, centres: Float64) -> Int64:
    """Return the number of the nearest centre: int64 (starts, n) for centres (starts, k, d)."""
    norms = np.einsum("skd,skd->sk", centres, centres)
    to_centres = norms[:, None] + np.matmul(-2.0 * x, centres.transpose(0, 2, 1))  # less what all of them share
    return np.asarray(np.argmin(to_centres, axis=2), dtype=np.int64)


def _means(x: Float64, labels: Int64, centres: Float64) -> Float64 | None:
    """Return the mean of every cluster, (starts, k, d); None if one stays empty. centres: (starts, k, d), of before."""
    starts, k, _ = centres.shape
    slots = (labels + np.arange(starts)[:, None] * k).ravel()
    counts = np.bincount(slots, minlength=starts * k).reshape(starts, k)
    columns = [np.bincount(slots, weights=np.tile(column, starts), minlength=starts * k) for column in x.T]
    sums = np.stack(columns, axis=1).reshape(starts, k, -1)
    for start in np.flatnonzero((counts == 0).any(axis=1)):
        _fill_empty(x, labels[start], centres[start], sums[start], counts[start])
    return sums * (1.0 / counts)[..., None] if counts.all() else None


def _fill_empty(x: Float64, labels: Int64, centres: Float64, sums: Float64, counts: Int64) -> None:
    """Move the points farthest from their centres to the empty clusters, in `sums` (k, d) and `counts` (k,)."""
    empty = np.flatnonzero(counts == 0)
    away = ((x - centres[labels]) ** 2).sum(axis=1)
    farthest = np.argpartition(away, -len(empty))[: -len(empty) - 1 : -1]
    for cluster, point in zip(empty, farthest) if away.any() else ():
        sums[labels[point]] -= x[point]
        sums[cluster] = x[point]
        counts[labels[point]] -= 1
        counts[cluster] = 1


def _best(x: Float64, centres: Float64, labels: Int64) -> int:
    """Return the start with the least inertia; of those with the same clusters, the first."""
    away = _squares(x - np.take_along_axis(centres, labels[..., None], axis=1))
    inertia = np.cumsum(away, axis=1)[:, -1]  # added one by one: the last bits decide between mirrored clusters
    best = 0
    for start in range(1, len(labels)):
        if inertia[start] < inertia[best] and not _same(labels[start], labels[best]):
            best = start
    return best


def _same(one: Int64, other: Int64) -> bool:
    """Return whether two labellings are the same up to the numbers of the clusters."""
    pairs = np.unique(np.stack([one, other]), axis=1).shape[1]
    return bool(pairs == len(np.unique(one)) == len(np.unique(other)))


def _squares(vectors: Float64) -> Float64:
    """Return the squared length of vectors (..., d), their squares added in order."""
    total = np.square(vectors[..., 0])
    for column in range(1, vectors.shape[-1]):
        total = total + np.square(vectors[..., column])
    return np.asarray(total, dtype=np.float64)
