"""The vote of the hits: the most common site or diagnosis, how ties are broken, and the agreement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from slideseek.types import SlideRecord

VOTED = ("site", "label")
"""The fields of a slide that hits vote on."""

FIELD_NAMES = {"site": "site", "label": "diagnosis"}
"""What people call the fields that hits vote on."""

TieRule: TypeAlias = Literal["nearest", "correct", "strict"]
TIE_RULES: tuple[TieRule, ...] = get_args(TieRule)


@dataclass(frozen=True, slots=True)
class Vote:
    """What the hits voted for.

    value: the most common value. agreeing: hits with that value. labelled: hits with any value. hits: all hits.
    """

    value: str
    agreeing: int
    labelled: int
    hits: int

    @property
    def confidence(self) -> float:
        """Share of all hits that agree, 0 to 1; a hit whose value is unknown does not agree."""
        return self.agreeing / self.hits


def vote(records: Iterable[SlideRecord]) -> dict[str, Vote]:
    """Return the votes of hits, nearest first, by field; a field unknown for all hits has no vote."""
    found = list(records)
    votes: dict[str, Vote] = {}
    for name in VOTED:
        values = [getattr(record, name) for record in found]
        if winner := majority(values):
            votes[name] = Vote(winner, values.count(winner), sum(map(bool, values)), len(values))
    return votes


def majority(labels: Sequence[str], tie: TieRule = "nearest", truth: str = "") -> str:
    """Return the most common of the ranked labels; "" if there is none.

    labels: nearest first; unknown labels ("") have no vote. tie: `nearest` gives a tie to the label that comes first;
    `correct` gives it to `truth` if that is one of the tied, else to the label that comes first; `strict` needs more
    than half of the votes cast, else it returns "".
    """
    votes: dict[str, int] = {}
    for label in labels:
        if label:
            votes[label] = votes.get(label, 0) + 1
    if not votes:
        return ""
    winner = max(votes, key=votes.__getitem__)  # of equal counts, max takes the label that comes first
    count = votes[winner]
    if tie == "strict" and 2 * count <= sum(votes.values()):
        return ""
    if tie == "correct" and votes.get(truth) == count:
        return truth
    return winner
