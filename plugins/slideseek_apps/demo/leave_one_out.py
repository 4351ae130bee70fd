"""Leave-one-patient-out accuracy: every slide is a query against the slides of other patients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from slideseek.errors import SlideseekError
from slideseek.searching.searcher import Mode, Searcher


@dataclass(frozen=True, slots=True)
class Verdict:
    """The vote of the nearest slides of other patients for one slide, and the true value.

    scope: the site searched in, "" for the whole archive.
    """

    slide_id: str
    scope: str
    truth: str
    vote: str


def leave_one_patient_out(searcher: Searcher, mode: Mode, k: int) -> list[Verdict]:
    """Search with every indexed slide among the slides of other patients; the vote of the k nearest is the verdict.

    Vertical search votes on the label within the slide's site, horizontal search on the site. Slides without a
    true value, or without slides of other patients to search, are skipped.

    Only the search leaves the patient out. A trainable engine was fitted on all slides, including those of the query's
    patient, so its accuracy is optimistic. To judge such an engine, fit it on other patients than it is tested on.
    """
    what = "label" if mode == "vertical" else "site"
    verdicts = []
    for slide_id in sorted(searcher.index.ids):
        query = searcher.queries.stored(slide_id)
        truth = getattr(query.record, what)
        if not truth or (mode == "vertical" and not query.record.site):
            continue
        answer = searcher.search(query, k, mode)
        if answer.candidates:
            said = answer.votes[what].value if what in answer.votes else ""
            verdicts.append(Verdict(slide_id, query.record.site if mode == "vertical" else "", truth, said))
    if not verdicts:
        raise SlideseekError(f"no slide can be a query: none has a {what} and slides of other patients to search")
    return verdicts


def accuracy(verdicts: Sequence[Verdict]) -> float:
    """Return the share of slides whose vote is correct."""
    return sum(v.vote == v.truth for v in verdicts) / len(verdicts)


def majority_class_rate(verdicts: Sequence[Verdict]) -> float:
    """Return the accuracy of always answering the most common true value of each scope."""
    by_scope: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        by_scope.setdefault(verdict.scope, Counter())[verdict.truth] += 1
    return sum(truths.most_common(1)[0][1] for truths in by_scope.values()) / len(verdicts)
