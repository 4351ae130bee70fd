"""Measures of one ranked list: the majority vote and its ties, P@k, AP@k (for mAP@k), nDCG@k, the same-centre share.

Every convention that changes a number has a name. A list may be shorter than k. `relevance` holds for each hit, nearest
first, whether it has the query's label.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Literal, TypeAlias, get_args

Divisor: TypeAlias = Literal["hits", "k", "min(k, relevant)"]
DIVISORS: tuple[Divisor, ...] = get_args(Divisor)

Length: TypeAlias = Literal["k", "found"]
LENGTHS: tuple[Length, ...] = get_args(Length)


def precision_at(relevance: Sequence[bool], k: int, length: Length = "k") -> float:
    """Return the share of relevant hits among the first k.

    length: `k` counts a missing hit as irrelevant; `found` divides by the number of hits. No hits give 0.
    """
    head = relevance[:k]
    divisor = k if length == "k" else len(head)
    return sum(head) / divisor if divisor else 0.0


def average_precision_at(
    relevance: Sequence[bool], k: int, divisor: Divisor = "hits", relevant: int | None = None
) -> float:
    """Return AP@k: the sum of P@i over the relevant ranks i <= k, divided.

    divisor: `hits` is the number of relevant hits among the first k, `k` is k, and `min(k, relevant)` is the largest
    number of relevant hits a list of length k can have; `relevant` is the number of relevant candidates. Nothing
    relevant gives 0.
    """
    total = found = 0.0
    for rank, right in enumerate(relevance[:k], 1):
        if right:
            found += 1
            total += found / rank
    return total / _divisor(divisor, int(found), k, relevant) if found else 0.0


def ndcg_at(relevance: Sequence[bool], k: int, ideal: Divisor = "hits", relevant: int | None = None) -> float:
    """Return nDCG@k with gains of 0 and 1 and the discount log2(rank + 1).

    ideal: the number of relevant hits of the perfect list, named as in `average_precision_at`. scikit-learn's
    `ndcg_score` has only one of these conventions.
    """
    head = relevance[:k]
    gain = sum(1 / log2(rank + 1) for rank, right in enumerate(head, 1) if right)
    if not gain:
        return 0.0
    return gain / sum(1 / log2(rank + 1) for rank in range(1, _divisor(ideal, sum(head), k, relevant) + 1))


def same_center_share_at(center: str, centers: Sequence[str], k: int) -> float | None:
    """Return the share of the query's centre among the hits of the first k with a known centre; None without any."""
    known = [other for other in centers[:k] if other]
    return sum(other == center for other in known) / len(known) if center and known else None


def _divisor(name: Divisor, found: int, k: int, relevant: int | None) -> int:
    if name == "hits":
        return found
    if name == "k":
        return k
    if relevant is None or relevant < found:
        raise ValueError(f"relevant: at least {found}, the number found, not {relevant}")
    return min(k, relevant)
