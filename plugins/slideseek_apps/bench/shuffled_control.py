"""The shuffled-label control: with labels that mean nothing, a sound benchmark scores at chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from slideseek.searching.votes import majority
from slideseek.types import Int64, SlideRecord
from slideseek_apps.bench.folds import target_of
from slideseek_apps.bench.protocol import Protocol
from slideseek_apps.bench.ranked_lists import QueryHits

VOTERS = 3
SHUFFLES = 2000
ALARM = 0.01
"""Probability of a false alarm for a grid of sound engines, all its controls together."""


@dataclass(frozen=True, slots=True)
class ControlVerdict:
    """The verdict on a control.

    observed: mean over classes of the share of queries whose majority of 3 is right. chance: its mean when the labels
    of patients are shuffled again; low, high: the 95 % interval. p: share of shuffles at least as good. at_chance: at
    chance or below; false when the control is better than chance explains, so that labels leak.
    """

    observed: float
    chance: float
    low: float
    high: float
    p: float
    at_chance: bool

    def data(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        # Below chance is not an alarm: in a class of few patients, leaving one out lets the other classes win the vote.
        word = "at chance" if self.observed >= self.low else "below chance"
        word = word if self.at_chance else "ABOVE CHANCE: labels leak"
        return (
            f"{word} (macro recall {self.observed:.3f}, chance {self.chance:.3f},"
            f" 95 % interval {self.low:.3f} to {self.high:.3f}, p = {self.p:.4f})"
        )


def shuffle_labels(records: Sequence[SlideRecord], protocol: Protocol, seed: int) -> list[SlideRecord]:
    """Return the slides with the targets of other patients; all slides of a patient get the same.

    In a vertical protocol labels stay within their site, so that each site keeps its classes.
    """
    truth = _units(records, protocol)
    names = sorted(truth)
    order = np.random.default_rng([seed, 0xC0]).permutation(len(names))
    dealt: dict[tuple[str, str], str] = {}
    for scope in sorted({scope for scope, _ in names}):
        here = [name for name in names if name[0] == scope]
        drawn = [names[i] for i in order if names[i][0] == scope]
        dealt |= {name: truth[other] for name, other in zip(here, drawn)}
    if protocol.target == "label":
        return [replace(record, label=dealt[_unit(record, protocol)]) for record in records]
    return [replace(record, site=dealt[_unit(record, protocol)]) for record in records]


def judge_control(queries: Sequence[QueryHits], protocol: Protocol, seed: int, controls: int) -> ControlVerdict:
    """Compare a control with chance: shuffle the labels of its patients while the votes stay.

    controls: their number in the grid; the more there are, the stronger the evidence an alarm needs.
    """
    units = [(query.site if protocol.mode == "vertical" else "", query.patient) for query in queries]
    names = sorted(set(units))
    classes = sorted({query.label for query in queries})
    number = {name: i for i, name in enumerate(classes)}
    voted = (majority([hit.label for hit in query.hits[:VOTERS]]) for query in queries)
    votes = np.array([number.get(vote, -1) for vote in voted])
    place = {name: i for i, name in enumerate(names)}
    member = np.array([place[unit] for unit in units])
    truth = np.zeros(len(names), dtype=np.int64)
    truth[member] = [number[query.label] for query in queries]
    scopes = [
        np.array([i for i, name in enumerate(names) if name[0] == scope])
        for scope in sorted({name[0] for name in names})
    ]
    rng = np.random.default_rng([seed, 0xC1])
    observed = _macro_recall(truth[member], votes)
    drawn = np.empty(SHUFFLES)
    dealt = truth.copy()
    for i in range(SHUFFLES):
        for scope in scopes:
            dealt[scope] = truth[rng.permutation(scope)]
        drawn[i] = _macro_recall(dealt[member], votes)
    p = float((1 + np.sum(drawn >= observed)) / (1 + SHUFFLES))
    low, high = np.quantile(drawn, (0.025, 0.975))
    limit = max(ALARM / max(1, controls), 1 / (1 + SHUFFLES))
    return ControlVerdict(observed, float(drawn.mean()), float(low), float(high), p, p > limit)


def _macro_recall(truths: Int64, votes: Int64) -> float:
    """Return the mean over the classes present of the share of right votes. truths, votes: numbers of classes."""
    asked = np.bincount(truths)
    right = np.bincount(truths[truths == votes], minlength=len(asked))
    there = asked > 0
    return float((right[there] / asked[there]).mean())


def _unit(record: SlideRecord, protocol: Protocol) -> tuple[str, str]:
    return (record.site if protocol.mode == "vertical" else "", record.patient)


def _units(records: Sequence[SlideRecord], protocol: Protocol) -> dict[tuple[str, str], str]:
    """Return the target of the first slide of each patient; in a vertical protocol, of each patient within a site."""
    found: dict[tuple[str, str], str] = {}
    for record in records:
        found.setdefault(_unit(record, protocol), target_of(record, protocol))
    return found
