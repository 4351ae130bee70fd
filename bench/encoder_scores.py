"""Scores of ranked slides: mean average precision, macro F1, and their bootstrap over patients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.encoder_sets import Protocol, Split, Task, candidates
from slideseek.searching.votes import majority

NEAREST = (1, 3, 5)
RESAMPLES = 1000


@dataclass(frozen=True)
class Ranked:
    """The slides of one seed that were searched for: average precision in %, and the majority of the nearest.

    rows: int64 (queries,), their numbers. truth: what each is. said: the answer of every query, for each k of
    `NEAREST`.
    """

    rows: NDArray[np.int64]
    precision: NDArray[np.float64]
    truth: list[str]
    said: dict[int, list[str]]


def rank(
    task: Task, protocol: Protocol, found: Sequence[tuple[Split, NDArray[np.float64]]], again: int | None = None
) -> Ranked:
    """Search for the slides of every split, by distance and then by number; a slide without a match is not counted.

    found: the splits, each with the distances (slides, slides) of its fit. Average precision is over all candidates,
    divided by the number of matches. again: a seed; the queries of a split swap what they are searched for. A code that
    gathers classes in clusters has a higher precision then than a random order: it is right or wrong altogether.
    """
    rows, precision, truth = [], [], []
    said: dict[int, list[str]] = {k: [] for k in NEAREST}
    for split, near in found:
        own = split.queries
        if again is not None:
            own = np.random.default_rng([again, split.number]).permutation(own)
        for query, described in zip(split.queries.tolist(), own.tolist()):
            among = candidates(task, split, protocol, query, described)
            among = among[np.isfinite(near[query, among])]
            order = among[np.argsort(near[query, among], kind="stable")]
            answers = [task.targets[i] for i in order]
            match = np.array([answer == task.targets[described] for answer in answers], dtype=np.bool_)
            if not match.any():
                continue
            rows.append(query)
            truth.append(task.targets[described])
            precision.append(100 * float(np.mean(np.arange(1, match.sum() + 1) / (np.flatnonzero(match) + 1))))
            for k in NEAREST:
                said[k].append(majority(answers[:k]))
    return Ranked(np.array(rows, dtype=np.int64), np.array(precision), truth, said)


def macro_f1(truth: Sequence[str], answers: Sequence[str], weights: NDArray[np.float64]) -> float:
    """Return the mean over classes of F1 in %, slides weighted (for the bootstrap)."""
    return Answers.of(truth, answers).macro_f1(weights)


@dataclass(frozen=True)
class Answers:
    """Classes by number, int64 (queries,): what each query is, and what was said; out of `count` classes."""

    true: NDArray[np.int64]
    claimed: NDArray[np.int64]
    count: int

    @classmethod
    def of(cls, truth: Sequence[str], answers: Sequence[str]) -> Answers:
        """Number the names; done once for all resamples."""
        names = sorted(set(truth) | set(answers))
        number = {name: i for i, name in enumerate(names)}
        true, claimed = (np.array([number[name] for name in given], dtype=np.int64) for given in (truth, answers))
        return cls(true, claimed, len(names))

    def macro_f1(self, weights: NDArray[np.float64]) -> float:
        """Return the mean over the classes that queries have of F1 in %, slides weighted."""
        of_truth, of_answers, both = (
            np.bincount(given, weights=own, minlength=self.count)
            for given, own in (
                (self.true, weights),
                (self.claimed, weights),
                (self.true, weights * (self.true == self.claimed)),
            )
        )
        present = of_truth > 0
        return 100 * float(np.mean(2 * both[present] / (of_truth + of_answers)[present])) if present.any() else 0.0


@dataclass(frozen=True)
class Score:
    """A measure in %: its mean over seeds, and over bootstrap samples of the patients."""

    mean: float
    resampled: NDArray[np.float64]

    @property
    def error(self) -> float:
        """The standard error."""
        return float(self.resampled.std())

    def against(self, other: Score) -> tuple[float, float]:
        """Return the paired difference and its standard error."""
        return self.mean - other.mean, float((self.resampled - other.resampled).std())


def score(task: Task, seeds: Sequence[Ranked]) -> dict[str, Score]:
    """Return `mAP`, `F1@1`, `F1@3` and `F1@5`; patients are resampled with the same draws for every encoder."""
    patients = sorted(set(task.features.groups))
    member = np.array([patients.index(group) for group in task.features.groups])
    rng = np.random.default_rng(0)
    draws = [np.ones(len(patients))] + [
        np.bincount(rng.integers(len(patients), size=len(patients)), minlength=len(patients)).astype(np.float64)
        for _ in range(RESAMPLES)
    ]
    values: dict[str, list[float]] = {name: [] for name in ("mAP", *(f"F1@{k}" for k in NEAREST))}
    answers = {k: [Answers.of(ranked.truth, ranked.said[k]) for ranked in seeds] for k in NEAREST}
    for draw in draws:
        weights = [draw[member[ranked.rows]] for ranked in seeds]
        values["mAP"].append(_mean([_weighted(r.precision, w) for r, w in zip(seeds, weights)]))
        for k in NEAREST:
            values[f"F1@{k}"].append(_mean([own.macro_f1(w) for own, w in zip(answers[k], weights)]))
    return {name: Score(found[0], np.array(found[1:])) for name, found in values.items()}


def _weighted(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return float((values * weights).sum() / weights.sum()) if weights.sum() else 0.0


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
