"""Sums over slides by patient and class, from which F1 and all means over slides are computed.

The first two axes of the arrays are (patients, classes). So weights per patient, from a bootstrap or a permutation,
turn them into (classes, parts) by one matrix product. There are two families of parts:

- counts: (truth, said, both), the slides of the class, the slides voted into it, and the slides that are both;
- values: (truth, value), the slides of the class and the sum of a per-query measure over them.

The statistics take arrays (..., classes, parts) and return (..., classes) or (...). A class without a slide, which a
bootstrap sample may have, is nan in the former and is left out of the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from slideseek.types import Float64, Int64

Statistic: TypeAlias = Callable[[Float64], Float64]


def count(patients: Int64, truth: Int64, said: Int64, size: tuple[int, int]) -> Float64:
    """Return counts, float64 (patients, classes, 3); `said` is -1 for a vote for none of the classes."""
    sums = np.zeros((*size, 3))
    np.add.at(sums[..., 0], (patients, truth), 1)
    voted = said >= 0
    np.add.at(sums[..., 1], (patients[voted], said[voted]), 1)
    right = said == truth
    np.add.at(sums[..., 2], (patients[right], truth[right]), 1)
    return sums


def collect(patients: Int64, truth: Int64, values: Float64, size: tuple[int, int]) -> Float64:
    """Return values, float64 (patients, classes, 2), of one number per query; nan leaves the query out."""
    known = ~np.isnan(values)
    sums = np.zeros((*size, 2))
    np.add.at(sums[..., 0], (patients[known], truth[known]), 1)
    np.add.at(sums[..., 1], (patients[known], truth[known]), values[known])
    return sums


def precision(counts: Float64) -> Float64:
    """Return precision per class: 0 where no slide was voted into the class."""
    return _of_present(counts, _ratio(counts[..., 2], counts[..., 1]))


def recall(counts: Float64) -> Float64:
    """Return recall per class."""
    return _of_present(counts, _ratio(counts[..., 2], counts[..., 0]))


def f1(counts: Float64) -> Float64:
    """Return F1 per class, the harmonic mean of precision and recall: 0 where both are."""
    return _of_present(counts, _ratio(2 * counts[..., 2], counts[..., 0] + counts[..., 1]))


def accuracy(counts: Float64) -> Float64:
    """Return the share of slides whose vote is right."""
    return _ratio(counts[..., 2].sum(-1), counts[..., 0].sum(-1))


def macro(per_class: Statistic) -> Statistic:
    """Return the plain mean over classes of a statistic per class."""

    def mean(sums: Float64) -> Float64:
        present = sums[..., 0] > 0
        return _ratio(np.where(present, per_class(sums), 0.0).sum(-1), present.sum(-1).astype(np.float64))

    return mean


def weighted(per_class: Statistic) -> Statistic:
    """Return the mean over classes of a statistic per class, each weighted by its number of slides."""

    def mean(sums: Float64) -> Float64:
        slides = sums[..., 0]
        return _ratio((np.where(slides > 0, per_class(sums), 0.0) * slides).sum(-1), slides.sum(-1))

    return mean


def mean_by_class(values: Float64) -> Float64:
    """Return the mean of a per-query measure over the slides of each class."""
    return _of_present(values, _ratio(values[..., 1], values[..., 0]))


def mean_of_queries(values: Float64) -> Float64:
    """Return the mean of a per-query measure over all queries that have it."""
    return _ratio(values[..., 1].sum(-1), values[..., 0].sum(-1))


def positions(names: Sequence[str], among: Sequence[str]) -> Int64:
    """Return int64 (n,), the place of each name in `among`."""
    place = {name: i for i, name in enumerate(among)}
    return np.array([place[name] for name in names], dtype=np.int64)


def _of_present(sums: Float64, values: Float64) -> Float64:
    return np.where(sums[..., 0] > 0, values, np.nan)


def _ratio(above: Float64, below: Float64) -> Float64:
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below > 0)
