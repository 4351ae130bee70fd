"""Relevance feedback: search with the slides a user marked, for every kind of code.

The query's code and those of the relevant slides are merged into one code: the mean of the unit vectors for floats, the
majority of each bit for single bit codes (the query decides a tie), the union of the rows for sets. Each candidate has
its distance `d` to that code, and its distance `n` to the nearest rejected slide. Candidates are ranked by
`d + max(0, d - n)`: a candidate nearer to a rejected slide than to the relevant ones is pushed back by the difference.
Marked slides are not found again. Other slides of the relevant slides' patients are also excluded unless requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.boundary import CheckedIndex
from slideseek.errors import UsageError
from slideseek.searching.queries import Query
from slideseek.searching.searcher import Answer, Found, Mode, Searcher
from slideseek.searching.votes import vote
from slideseek.types import Code, CodeSpec, Float32, Hit, UInt8

POOL = 1000
"""Candidates to rank again: this many of the nearest, or 20 times the requested hits if that is more."""


def merge_codes(codes: Sequence[Code], spec: CodeSpec) -> Code:
    """Merge several codes of one engine and space into one; the first is the query's."""
    rows: NDArray[Any] = np.concatenate([code.rows for code in codes])
    if spec.many:
        return replace(codes[0], rows=rows)
    if spec.kind == "bits":
        return replace(codes[0], rows=_majority(rows, spec.width))
    return replace(codes[0], rows=_mean(rows))


def more_like_these(
    searcher: Searcher,
    query: Query,
    relevant: Sequence[str],
    rejected: Sequence[str],
    k: int,
    mode: Mode = "horizontal",
    where: Sequence[str] = (),
    include_same_patient: bool = False,
    exclude_center: bool = False,
    options: Sequence[str] = (),
) -> Answer:
    """Return the k slides most similar to a query and the relevant slides, and least similar to the rejected ones."""
    if both := sorted(set(relevant) & set(rejected)):
        raise UsageError(f"{both[0]!r} is marked both relevant and not", "mark it one way")
    liked = [searcher.queries.stored(slide_id) for slide_id in relevant]
    disliked = [searcher.queries.stored(slide_id) for slide_id in rejected]
    usable = [one for one in liked if one.code.space == query.code.space]
    notes = list(query.notes)
    if apart := len(liked) - len(usable):
        notes.append(f"{apart} relevant slide(s) were not used: their codes cannot be compared with the query's")
    whole = replace(
        query,
        code=merge_codes([query.code, *(one.code for one in usable)], searcher.engine.spec),
        fingerprints=query.fingerprints.union(*(one.fingerprints for one in usable)),
        notes=tuple(notes),
    )
    pool = min(max(POOL, 20 * k), len(searcher.index.ids))
    if searcher.engine.config.reranker:
        whole = replace(whole, notes=(*whole.notes, "codes were compared, and not re-ranked by patches"))
    answer = searcher.search(whole, pool, mode, where, include_same_patient, exclude_center, options, rerank=False)
    marked = {query.record.id, *relevant, *rejected}
    found = [one for one in answer.found if one.hit.slide_id not in marked]
    pushed = _push_back([one.hit for one in found], searcher.tuned(options).index or searcher.index, disliked)
    records = {one.hit.slide_id: one.record for one in found}
    ranked = [Found(rank, hit, records[hit.slide_id]) for rank, hit in enumerate(pushed[:k], start=1)]
    return replace(answer, found=ranked, votes=vote(one.record for one in ranked))


def _push_back(hits: Sequence[Hit], index: CheckedIndex, disliked: Sequence[Query]) -> list[Hit]:
    """Rank hits again: those nearer to a rejected slide than to the relevant ones move back."""
    wanted = {hit.slide_id for hit in hits}
    among = np.fromiter((i in wanted for i in index.ids), dtype=bool, count=len(index.ids))
    nearest: dict[str, float] = {}
    for one in disliked:
        for hit in index.search(one.code, max(len(hits), 1), among):
            nearest[hit.slide_id] = min(hit.distance, nearest.get(hit.slide_id, np.inf))
    pushed = [
        Hit(hit.slide_id, hit.distance + max(0.0, hit.distance - nearest.get(hit.slide_id, np.inf))) for hit in hits
    ]
    return sorted(pushed, key=lambda hit: (hit.distance, hit.slide_id))


def _mean(rows: NDArray[Any]) -> Float32:
    """Return the mean direction of rows, float32 (1, width); zero rows are ignored."""
    values = rows.astype(np.float64)
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    units = np.divide(values, norms, out=np.zeros_like(values), where=norms > 0)
    return np.asarray(units.mean(axis=0, keepdims=True), dtype=np.float32)


def _majority(rows: NDArray[Any], width: int) -> UInt8:
    """Return the majority of each packed bit, uint8 (1, columns); the first row decides a tie."""
    bits = np.unpackbits(rows.astype(np.uint8, copy=False), axis=1, count=width).astype(np.int64)
    twice = 2 * bits.sum(axis=0) - len(bits)
    return np.packbits(np.where(twice == 0, bits[0], twice > 0).astype(np.uint8)[None], axis=1)
