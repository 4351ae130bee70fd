"""Measures computed from ranked labels alone. Every convention that changes a number has a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

TieRule: TypeAlias = Literal["nearest", "strict"]


def majority(labels: Sequence[str], tie: TieRule = "nearest") -> str:
    """Return the label most of the ranked labels carry; "" when there is none.

    labels: nearest first; unknown labels ("") have no vote. tie: `nearest` gives a tie to the label met first;
    `strict` wants more than half of the votes and else returns "".
    """
    votes = Counter(label for label in labels if label)
    if not votes:
        return ""
    winner, count = votes.most_common(1)[0]  # most_common keeps first-met order among equals
    if tie == "strict" and 2 * count <= votes.total():
        return ""
    return winner
