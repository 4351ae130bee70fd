"""Percentile bootstrap over patients.

Slides of one patient are not independent, so patients are drawn with replacement, each with all its slides. The
percentile interval needs no variance formula, stays within [0, 1], and has length zero for a statistic that is the same
in every resample. `scipy.stats.bootstrap` is not used: it would compute each statistic again from the slides of every
resample, where weights per patient do the same by one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from slideseek.types import Float64
from slideseek_apps.bench.class_sums import Statistic

RESAMPLES = 2000
LEVEL = 0.95
_CHUNK_VALUES = 4_000_000
"""Number of weights held at a time, to bound memory for large archives."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, or an array of numbers, with its interval: `low` and `high` bound the middle 95 % of the resamples."""

    value: Float64
    low: Float64
    high: Float64


class Resampled:
    """Sums over all patients, and over many bootstrap samples of the patients.

    sums: float64 (seeds, patients, classes, parts), see `class_sums`. All seeds share the draws of patients, and with
    the same bootstrap seed all engines do.
    """

    def __init__(self, sums: Float64, resamples: int = RESAMPLES, seed: int = 0) -> None:
        seeds, patients, classes, parts = sums.shape
        product = weighted_sums(sums.transpose(1, 0, 2, 3).reshape(patients, -1))
        drawn = [product(weights) for weights in draw_patients(patients, resamples, seed)]
        self.whole = sums.sum(1)
        self.drawn = np.concatenate(drawn).reshape(resamples, seeds, classes, parts)

    def estimate(self, statistic: Statistic, level: float = LEVEL) -> Estimate:
        """Return a statistic, averaged over seeds, with its percentile interval."""
        values = self.resampled(statistic)
        tail = 50 * (1 - level)
        with np.errstate(all="ignore"):
            low, high = _percentiles(values, (tail, 100 - tail))
        return Estimate(mean_over_seeds(statistic(self.whole), 0), low, high)

    def resampled(self, statistic: Statistic) -> Float64:
        """Return the statistic of every bootstrap sample, averaged over seeds: float64 (resamples, ...)."""
        return mean_over_seeds(statistic(self.drawn), 1)


def draw_patients(patients: int, resamples: int, seed: int) -> Iterator[Float64]:
    """Yield float64 (some resamples, patients): how often each patient is in a sample; `resamples` rows in all."""
    rng = np.random.default_rng([seed, patients])
    rows = max(1, _CHUNK_VALUES // patients)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        picks = rng.integers(patients, size=(size, patients)) + patients * np.arange(size)[:, None]
        yield np.bincount(picks.ravel(), minlength=size * patients).reshape(size, patients).astype(np.float64)


def weighted_sums(sums: Float64) -> Callable[[Float64], Float64]:
    """Return a function that multiplies weights (rows, patients) with sums (patients, columns).

    A patient has slides of one or two classes, so most sums are zero: the matrix is sparse.
    """
    columns = csr_array(sums.T)

    def product(weights: Float64) -> Float64:
        return np.asarray((columns @ weights.T).T)

    return product


def mean_over_seeds(values: Float64, axis: int) -> Float64:
    """Return the mean along the axis of seeds over the seeds with a value; nan where none has one."""
    known = ~np.isnan(values)
    number = known.sum(axis)
    total = np.where(known, values, 0.0).sum(axis)
    means: Float64 = np.divide(total, number, out=np.full(np.shape(total), np.nan), where=number > 0)
    return means


def _percentiles(values: Float64, percent: tuple[float, float]) -> tuple[Float64, Float64]:
    """Return two percentiles along the first axis, without nan (the class is in no sample)."""
    if not np.isnan(values).any():
        low, high = np.percentile(values, percent, axis=0)
        return np.asarray(low), np.asarray(high)
    columns = values.reshape(len(values), -1).T
    pairs = [np.percentile(c[~np.isnan(c)], percent) if not np.isnan(c).all() else (np.nan, np.nan) for c in columns]
    low, high = np.array(pairs).T.reshape(2, *values.shape[1:])
    return low, high
