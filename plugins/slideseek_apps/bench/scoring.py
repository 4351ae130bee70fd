"""Every measure of a set of ranked lists under every named convention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slideseek.searching.votes import TIE_RULES, TieRule
from slideseek.types import Float64
from slideseek_apps.bench import class_sums
from slideseek_apps.bench.class_sums import Statistic, macro, weighted
from slideseek_apps.bench.measure_sums import ListSums
from slideseek_apps.bench.measures import DIVISORS, LENGTHS, Divisor

KS = (1, 3, 5)
UNAVAILABLE = "needs the number of relevant slides per query (column `relevant`)"


@dataclass(frozen=True, slots=True)
class Score:
    """One number with the names of what it depends on.

    k: number of hits that count. convention: the named choices that change the number, such as `tie nearest`. value:
    from 0 to 1; None when the lists lack what the measure needs, and `note` then says what is missing.
    """

    measure: str
    k: int
    convention: str
    value: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ClassScore:
    """Precision, recall and F1 of one class by the vote of the k nearest."""

    site: str
    label: str
    slides: int
    k: int
    tie: TieRule
    precision: float
    recall: float
    f1: float


_VOTE_MEASURES: tuple[tuple[str, Statistic], ...] = (
    ("accuracy", class_sums.accuracy),
    ("macro F1", macro(class_sums.f1)),
    ("slide-weighted F1", weighted(class_sums.f1)),
    ("macro precision", macro(class_sums.precision)),
    ("slide-weighted precision", weighted(class_sums.precision)),
    ("macro recall", macro(class_sums.recall)),
    ("slide-weighted recall", weighted(class_sums.recall)),
)
_AVERAGES: tuple[tuple[str, Statistic], ...] = (
    ("mean over queries", class_sums.mean_of_queries),
    ("mean over classes", macro(class_sums.mean_by_class)),
)


def score(lists: ListSums, ks: Sequence[int] = KS) -> list[Score]:
    """Return every measure at every k under every convention."""
    return [found for k in ks for found in (*_vote_scores(lists, k), *_rank_scores(lists, k))]


def score_classes(lists: ListSums, k: int, tie: TieRule) -> list[ClassScore]:
    """Return precision, recall and F1 of each class, sorted by site and label."""
    counts = lists.vote_counts(k, tie).sum(0)
    parts = zip(class_sums.precision(counts), class_sums.recall(counts), class_sums.f1(counts))
    return [
        ClassScore(site, label, int(slides), k, tie, float(precision), float(recall), float(f1))
        for (site, label), slides, (precision, recall, f1) in zip(lists.classes, lists.slides, parts)
    ]


def _vote_scores(lists: ListSums, k: int) -> Iterator[Score]:
    for tie in TIE_RULES:
        counts = lists.vote_counts(k, tie).sum(0)
        for name, statistic in _VOTE_MEASURES:
            yield Score(f"majority-{k} {name}", k, f"tie {tie}", float(statistic(counts)))
        yield from _averaged(f"mMV@{k}", k, f"tie {tie}", lists.right_votes(k, tie))


def _rank_scores(lists: ListSums, k: int) -> Iterator[Score]:
    for length in LENGTHS:
        yield from _averaged(f"P@{k}", k, f"divisor {length}", lists.precisions(k, length))
    for divisor in DIVISORS:
        known = can_divide(lists, divisor)
        yield from _averaged(
            f"mAP@{k}", k, f"divisor {divisor}", lists.average_precisions(k, divisor) if known else None
        )
    for ideal in DIVISORS:
        known = can_divide(lists, ideal)
        yield from _averaged(f"nDCG@{k}", k, f"ideal {ideal}", lists.ndcgs(k, ideal) if known else None)
    if lists.knows_centers:
        value = float(class_sums.mean_of_queries(lists.same_center(k).sum(0)))
        yield Score(f"same-centre share@{k}", k, "mean over queries", value)
    else:
        note = "needs the centres of queries and hits (columns `query_center`, `hit_center`)"
        yield Score(f"same-centre share@{k}", k, "mean over queries", None, note)


def can_divide(lists: ListSums, divisor: Divisor) -> bool:
    """Say whether the lists have what the divisor needs."""
    return divisor != "min(k, relevant)" or lists.knows_relevant


def _averaged(measure: str, k: int, convention: str, sums: Float64 | None) -> Iterator[Score]:
    for average, statistic in _AVERAGES:
        names = f"{convention}, {average}"
        if sums is None:
            yield Score(measure, k, names, None, UNAVAILABLE)
        else:
            yield Score(measure, k, names, float(statistic(sums.sum(0))))
