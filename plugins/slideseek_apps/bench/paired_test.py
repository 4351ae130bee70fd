"""Paired comparison of engines: a permutation test over patients, with Holm's correction.

Under the null hypothesis it does not matter which of two engines answered for a patient. So the two are swapped for
each patient with probability one half, all slides and seeds of the patient together. The test keeps its level for any
statistic, also for F1, which is not a mean over slides. SciPy has no Holm correction, so it is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.types import Float64
from slideseek_apps.bench.bootstrap import mean_over_seeds, weighted_sums
from slideseek_apps.bench.class_sums import Statistic

PERMUTATIONS = 4999
_CHUNK_VALUES = 4_000_000
_ROUNDING = 1e-12
"""Differences closer than this are equal: rounding must not decide whether a permutation counts."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the first engine is above the second, and the two-sided p-value."""

    value: float
    p: float


def compare(
    first: Float64, second: Float64, statistic: Statistic, permutations: int = PERMUTATIONS, seed: int = 0
) -> Difference:
    """Test whether two engines differ in a statistic.

    first, second: float64 (seeds, patients, classes, parts) of the same slides. The p-value counts the observed
    arrangement as one of the permutations, so it is never 0.
    """
    if first.shape != second.shape:
        raise ValueError(f"second: the shape of first {first.shape}, not {second.shape}")
    whole = (first.sum(1), second.sum(1))
    observed = float(_gap(statistic, whole[0][None], whole[1][None])[0])
    swap = second - first
    moved = np.flatnonzero(np.abs(swap).sum((0, 2, 3)) > 0)  # a patient with equal answers changes nothing
    if not len(moved):
        return Difference(observed, 1.0)
    product = weighted_sums(swap[:, moved].transpose(1, 0, 2, 3).reshape(len(moved), -1))
    extreme = 0
    for signs in _draw_swaps(len(moved), permutations, seed):
        change = product(signs).reshape(len(signs), *whole[0].shape)
        gaps = _gap(statistic, whole[0] + change, whole[1] - change)
        extreme += int((np.abs(gaps) >= abs(observed) - _ROUNDING).sum())
    return Difference(observed, (1 + extreme) / (1 + permutations))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected by Holm's step-down method, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, largest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * p_values[i]))
        corrected[i] = largest
    return corrected


def _gap(statistic: Statistic, first: Float64, second: Float64) -> Float64:
    """Return the difference of the statistic, averaged over seeds, for arrays (permutations, seeds, classes, parts)."""
    return mean_over_seeds(statistic(first) - statistic(second), 1)


def _draw_swaps(patients: int, permutations: int, seed: int) -> Iterator[Float64]:
    """Yield float64 (some permutations, patients) of 0 and 1; `permutations` rows in all."""
    rng = np.random.default_rng([seed, patients, 1])
    rows = max(1, _CHUNK_VALUES // patients)
    for start in range(0, permutations, rows):
        yield rng.integers(2, size=(min(rows, permutations - start), patients), dtype=np.int8).astype(np.float64)
