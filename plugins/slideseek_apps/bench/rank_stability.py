"""How stable the order of engines is: a paired bootstrap over sites and patients.

Sites are drawn with replacement, and within each drawn site its patients, each with all its slides. All engines share
the draws. With one site this is the bootstrap over patients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.types import Float64, Int64
from slideseek_apps.bench.bootstrap import LEVEL, RESAMPLES, mean_over_seeds, weighted_sums
from slideseek_apps.bench.class_sums import Statistic

_CHUNK = 250
"""Resamples drawn at a time, to bound memory."""


@dataclass(frozen=True, slots=True)
class Stability:
    """The place of one engine. first: probability to be the best; engines that tie share it. low, high: bounds of the
    middle 95 % of its ranks, 1 is best. top: whether the best engine is not clearly better."""

    first: float
    low: int
    high: int
    top: bool


def rank_stability(
    stacks: Sequence[Float64], sites: Int64, statistic: Statistic, resamples: int = RESAMPLES, seed: int = 0
) -> list[Stability]:
    """Return the stability of each engine's place by a statistic, higher is better.

    stacks: per engine float64 (seeds, patients, classes, parts) of the same queries; see `class_sums`. sites: int64
    (patients,), the number of each patient's site. An engine is in the top group when the middle 95 % of its paired
    differences to the engine with the highest value include zero.
    """
    values = np.array([float(mean_over_seeds(statistic(stack.sum(1)), 0)) for stack in stacks])
    drawn = np.empty((resamples, len(stacks)))
    products = [weighted_sums(stack.transpose(1, 0, 2, 3).reshape(stack.shape[1], -1)) for stack in stacks]
    at = 0
    for weights in draw_sites_and_patients(sites, resamples, seed):
        for number, (stack, product) in enumerate(zip(stacks, products)):
            sums = product(weights).reshape(len(weights), stack.shape[0], *stack.shape[2:])
            drawn[at : at + len(weights), number] = mean_over_seeds(statistic(sums), 1)
        at += len(weights)
    best = drawn == drawn.max(axis=1, keepdims=True)
    first = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    ranks = 1 + (drawn[:, None, :] > drawn[:, :, None]).sum(axis=2)
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(ranks, (tail, 100 - tail), axis=0, method="nearest")
    behind = np.percentile(drawn[:, [int(values.argmax())]] - drawn, tail, axis=0)
    return [
        Stability(float(first[i]), int(low[i]), int(high[i]), bool(behind[i] <= 0 or values[i] == values.max()))
        for i in range(len(stacks))
    ]


def draw_sites_and_patients(sites: Int64, resamples: int, seed: int) -> Iterator[Float64]:
    """Yield float64 (some resamples, patients): how often each patient is in a sample; `resamples` rows in all."""
    rng = np.random.default_rng([seed, len(sites), 2])
    members = [np.flatnonzero(sites == site) for site in np.unique(sites)]
    for start in range(0, resamples, _CHUNK):
        size = min(_CHUNK, resamples - start)
        times = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=size)
        weights = np.zeros((size, len(sites)))
        for number, patients in enumerate(members):
            even = np.full(len(patients), 1 / len(patients))
            weights[:, patients] = rng.multinomial(times[:, number] * len(patients), even)
        yield weights
