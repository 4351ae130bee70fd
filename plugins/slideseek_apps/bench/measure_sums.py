"""Sums of every measure by patient and class, from the ranked lists or the predictions of one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from slideseek.searching.votes import TieRule, majority
from slideseek.types import Float64, Int64
from slideseek_apps.bench import class_sums
from slideseek_apps.bench.measures import (
    Divisor,
    Length,
    average_precision_at,
    ndcg_at,
    precision_at,
    same_center_share_at,
)
from slideseek_apps.bench.ranked_lists import QueryHits
from slideseek_apps.bench.results import Prediction

ClassName: TypeAlias = tuple[str, str]
"""(site, label); the site is "" where a class is a label of the whole archive."""


class AnswerSums:
    """True classes of the slides of one engine, and the patients and classes that answers are counted by.

    A slide without a known patient is a patient of its own. patients, classes: given where several engines or seeds
    share them; by default those of these slides.
    """

    def __init__(
        self,
        ids: Sequence[str],
        truth: Sequence[ClassName],
        patients_of: Sequence[str],
        patients: Sequence[str] = (),
        classes: Sequence[ClassName] = (),
    ) -> None:
        owners = [patient or f"\0{name}" for patient, name in zip(patients_of, ids)]
        self.ids = tuple(ids)
        self.truth = tuple(truth)
        self.patients = tuple(patients) or tuple(sorted(set(owners)))
        self.classes = tuple(classes) or tuple(sorted(set(truth)))
        self._patient = class_sums.positions(owners, self.patients)
        self._place = {name: i for i, name in enumerate(self.classes)}
        self._class = np.array([self._place[name] for name in truth], dtype=np.int64)

    @property
    def size(self) -> tuple[int, int]:
        """Number of patients and number of classes."""
        return len(self.patients), len(self.classes)

    @property
    def slides(self) -> Int64:
        """Number of slides of each class: int64 (classes,)."""
        return np.bincount(self._class, minlength=len(self.classes))

    def counts(self, said: Sequence[str]) -> Float64:
        """Return the counts of answers, one per slide: float64 (patients, classes, 3); see `class_sums`."""
        places = [self._place.get((site, label), -1) for (site, _), label in zip(self.truth, said)]
        return class_sums.count(self._patient, self._class, np.array(places, dtype=np.int64), self.size)

    def values(self, per_slide: Sequence[float | None]) -> Float64:
        """Return the sums of numbers, one per slide: float64 (patients, classes, 2); None leaves the slide out."""
        numbers = np.array([np.nan if value is None else value for value in per_slide], dtype=np.float64)
        return class_sums.collect(self._patient, self._class, numbers, self.size)


class ListSums(AnswerSums):
    """The ranked lists of one engine, with the sums of every measure.

    by_site: a class is a label within the query's site, as in vertical search; else a label.
    """

    def __init__(
        self,
        queries: Sequence[QueryHits],
        by_site: bool = False,
        patients: Sequence[str] = (),
        classes: Sequence[ClassName] = (),
    ) -> None:
        truth = [(query.site if by_site else "", query.label) for query in queries]
        super().__init__([q.query_id for q in queries], truth, [q.patient for q in queries], patients, classes)
        self.queries = tuple(queries)
        self._labels = [[hit.label for hit in query.hits] for query in queries]
        self._relevance = [[label == q.label for label in found] for found, q in zip(self._labels, queries)]
        self._votes: dict[tuple[int, TieRule], list[str]] = {}

    @property
    def knows_relevant(self) -> bool:
        """Whether the number of relevant candidates is known for every query."""
        return all(query.relevant is not None for query in self.queries)

    @property
    def knows_centers(self) -> bool:
        """Whether the centres of at least one query and one of its hits are known."""
        return any(query.center and any(hit.center for hit in query.hits) for query in self.queries)

    @property
    def depth(self) -> int:
        """Length of the longest list."""
        return max(len(query.hits) for query in self.queries)

    def votes(self, k: int, tie: TieRule) -> list[str]:
        """Return the vote of the k nearest, one per query; "" where there is none."""
        if (k, tie) not in self._votes:
            labels = zip(self._labels, self.queries)
            self._votes[k, tie] = [majority(found[:k], tie, query.label) for found, query in labels]
        return self._votes[k, tie]

    def vote_counts(self, k: int, tie: TieRule) -> Float64:
        """Return the counts of the votes of the k nearest."""
        return self.counts(self.votes(k, tie))

    def right_votes(self, k: int, tie: TieRule) -> Float64:
        """Return the sums of MV@k: 1 where the vote of the k nearest is right, else 0."""
        return self.values([float(said == q.label) for said, q in zip(self.votes(k, tie), self.queries)])

    def precisions(self, k: int, length: Length) -> Float64:
        """Return the sums of P@k."""
        return self.values([precision_at(r, k, length) for r in self._relevance])

    def average_precisions(self, k: int, divisor: Divisor) -> Float64:
        """Return the sums of AP@k."""
        return self._ranked(average_precision_at, k, divisor)

    def ndcgs(self, k: int, ideal: Divisor) -> Float64:
        """Return the sums of nDCG@k."""
        return self._ranked(ndcg_at, k, ideal)

    def same_center(self, k: int) -> Float64:
        """Return the sums of the share of the query's own centre among its k nearest, where both are known."""
        return self.values([same_center_share_at(q.center, [hit.center for hit in q.hits], k) for q in self.queries])

    def _ranked(
        self, measure: Callable[[Sequence[bool], int, Divisor, int | None], float], k: int, divisor: Divisor
    ) -> Float64:
        return self.values([measure(r, k, divisor, q.relevant) for r, q in zip(self._relevance, self.queries)])


def sums_of_predictions(
    predictions: Sequence[Prediction], patients: Sequence[str] = (), classes: Sequence[ClassName] = ()
) -> AnswerSums:
    """Return the sums of a classifier's predictions."""
    truth = [("", p.label) for p in predictions]
    return AnswerSums([p.query_id for p in predictions], truth, [p.patient for p in predictions], patients, classes)
