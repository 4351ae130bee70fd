"""Protocols: which slide is asked, and among which slides it is looked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from slideseek.errors import SlideseekError
from slideseek.searching.searcher import Mode, Searcher


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the nearest slides of other patients say about one slide, and what is true.

    scope: the site searched in, "" for the whole archive.
    """

    slide_id: str
    scope: str
    truth: str
    vote: str


def leave_one_patient_out(searcher: Searcher, mode: Mode, k: int) -> list[Verdict]:
    """Ask with every indexed slide among the slides of other patients; the vote of the k nearest is the verdict.

    Vertical search votes on the label within the slide's site, horizontal search on the site. Slides without a
    truth, or with no slide of another patient to look among, are not asked.

    Only the search leaves the patient out. A trainable engine was fitted on all slides, those of the patient asked
    about too, so its verdicts are optimistic: to judge one, fit it on other patients than it is asked about.
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
        raise SlideseekError(f"no slide can be asked: none has a {what} and slides of other patients to look among")
    return verdicts


def accuracy(verdicts: Sequence[Verdict]) -> float:
    """Return the share of slides whose vote is true."""
    return sum(v.vote == v.truth for v in verdicts) / len(verdicts)


def majority_class_rate(verdicts: Sequence[Verdict]) -> float:
    """Return the share of slides that a constant answer in each scope, its most common truth, would get right."""
    by_scope: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        by_scope.setdefault(verdict.scope, Counter())[verdict.truth] += 1
    return sum(truths.most_common(1)[0][1] for truths in by_scope.values()) / len(verdicts)
