"""Drive the compiled Hamming kernels: segments, masks, batches and threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numba import config
from numpy.typing import NDArray

from slideseek.types import Int32, Int64, Mask

from .hamming_kernels import FARTHEST, nearest_batch, nearest_one, nearest_sets
from .hamming_lanes import LANES
from .median_of_minima import DIRECTIONS, Direction
from .store import Segment, SlideStore, runs

TILE_BYTES, TILE_ROWS = 1 << 16, 512
"""Stored rows compared with a whole batch before the next ones are read: small enough to stay in the fast caches."""
BATCH = 64
"""Queries that visit a tile together; bounds the memory for their results."""
SHARED_BYTES = 1 << 25
"""Least work, in bytes compared, that justifies a second thread."""

Words: TypeAlias = NDArray[np.uint64]
SegmentRuns: TypeAlias = tuple[int, Segment, Int64]
"""A segment, the number of its first slot, and the runs of its slides to visit."""


class SinglesSearch:
    """Search all slides of a store of single codes, with everything that does not depend on the query precomputed.

    A small archive is compared in ten microseconds; working out what to compare would take as long.
    """

    def __init__(self, store: SlideStore) -> None:
        ranks = store.ranking.ranks
        self.ids = store.ranking.ids
        self._parts = [
            (segment.fields["words"], ranks[base : base + len(segment)], whole, _tile(segment.fields["words"]))
            for base, segment, whole in runs(store, None)
        ]

    def keys(self, query: Words, k: int) -> list[int]:
        """Return the keys of the k nearest slides, nearest first. query: uint64 (1, words). k: at most all slides."""
        keys = np.empty(k, np.int64)
        keys.fill(FARTHEST)
        row = query[0]
        for words, ranks, whole, tile in self._parts:
            nearest_one(words, ranks, whole, tile, row, keys)
        found: list[int] = keys.tolist()
        found.sort()
        return found


def find(
    store: SlideStore,
    rows: Words,
    counts: Sequence[int],
    wanted: Mask | None,
    k: int,
    direction: Direction,
    shifts: Int64 | None = None,
) -> Int64:
    """Return the keys of the k nearest slides of each query, in any order: int64 (q, k).

    rows: uint64 (rows, words) of all queries, counts: how many each has. wanted: bool (slots,), at least k of them, or
    None for all. shifts: int64 (slots,), at least 0, quarters of a bit added to the distance of each slide. Queries are
    shared between threads, as many as NUMBA_NUM_THREADS or the process allows; a single query runs in the caller's
    thread.
    """
    keys = np.empty((len(counts), k), np.int64)
    keys.fill(FARTHEST)
    singles = len(rows) == len(counts) and store.single and shifts is None
    parts, ranks = list(runs(store, wanted)), store.ranking.ranks
    ends = [0, *accumulate(counts)]
    added = np.zeros(len(ranks), np.int64) if shifts is None else shifts

    def answer(first: int, last: int) -> None:
        if singles:
            for at in range(first, last, BATCH):
                end = min(at + BATCH, last)
                _find_singles(parts, ranks, rows[at:end], keys[at:end])
        else:
            for at in range(first, last):
                _find_sets(parts, ranks, added, rows[ends[at] : ends[at + 1]], DIRECTIONS.index(direction), keys[at])

    threads = min(config.NUMBA_NUM_THREADS, len(counts), len(rows) * store.nbytes // SHARED_BYTES)
    if threads <= 1:
        answer(0, len(counts))
    else:
        cuts = np.linspace(0, len(counts), threads + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(answer, cuts[:-1], cuts[1:]))
    return keys


def _tile(words: Words) -> int:
    """Return how many rows are visited at a time."""
    return min(max(1, TILE_BYTES // (8 * int(words.shape[1]))), TILE_ROWS)


def _find_singles(parts: Sequence[SegmentRuns], ranks: Int32, queries: Words, keys: Int64) -> None:
    lanes = _in_fours(queries) if len(queries) > 1 else None
    for base, segment, chosen in parts:
        words, own = segment.fields["words"], ranks[base : base + len(segment)]
        if lanes is None:
            nearest_one(words, own, chosen, _tile(words), queries[0], keys[0])
        else:
            nearest_batch(words, own, chosen, _tile(words), lanes, keys)


def _find_sets(
    parts: Sequence[SegmentRuns], ranks: Int32, shifts: Int64, query: Words, direction: int, keys: Int64
) -> None:
    lanes = _in_fours(query)
    for base, segment, chosen in parts:
        words, here = segment.fields["words"], slice(base, base + len(segment))
        nearest_sets(words, segment.starts, ranks[here], shifts[here], chosen, lanes, len(query), direction, keys)


def _in_fours(queries: Words) -> Words:
    """Arrange query rows, uint64 (q, words), for the kernels: (ceil(q / 4), words, 4), padded with the last row."""
    filled = np.concatenate([queries, np.repeat(queries[-1:], -len(queries) % LANES, axis=0)])
    return np.ascontiguousarray(filled.reshape(-1, LANES, queries.shape[1]).transpose(0, 2, 1))
