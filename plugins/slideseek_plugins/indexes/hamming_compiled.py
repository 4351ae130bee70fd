"""Drive the compiled Hamming kernels: segments, masks, batches and threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numba import config
from numpy.typing import NDArray

from slideseek.types import Int32, Int64, Mask

from .hamming_kernels import FARTHEST, nearest_batch, nearest_one, nearest_sets
from .hamming_lanes import LANES
from .segments import Segment
from .sets import DIRECTIONS, Direction
from .store import Ranking, SlideStore, runs

TILE_BYTES, TILE_ROWS = 1 << 16, 512
"""Stored rows compared with a whole batch before the next ones are read: small enough to stay in the fast caches."""
BATCH = 64
"""Queries that visit a tile together; bounds the memory for what they find."""
SHARED_BYTES = 1 << 25
"""Least work, in bytes compared, worth a second thread."""

Words: TypeAlias = NDArray[np.uint64]
Part: TypeAlias = tuple[int, Segment, Int64]
"""A segment, the number of its first slot, and the runs of its slides to visit."""
Layout: TypeAlias = tuple[Words, Int32, Int64, int]
"""Rows of a segment, ranks of their slides, the run of them all, and rows of a tile."""
_LAYOUTS: WeakKeyDictionary[Ranking, list[Layout]] = WeakKeyDictionary()


def find(
    store: SlideStore, rows: Words, counts: Sequence[int], wanted: Mask | None, k: int, direction: Direction
) -> Int64:
    """Return the keys of the k nearest slides of each query, in any order: int64 (q, k).

    rows: uint64 (rows, words) of all queries, counts: how many each has. wanted: bool (slots,), at least k of them, or
    None for all. Queries are shared between threads, as many as NUMBA_NUM_THREADS says or the process may run at once;
    a single query runs in the caller's.
    """
    keys = np.empty((len(counts), k), np.int64)
    keys.fill(FARTHEST)
    singles = len(rows) == len(counts) and store.single
    if singles and wanted is None and len(counts) == 1:  # a small archive is compared in ten microseconds: be brief
        for words, own, whole, tile in _layout(store):
            nearest_one(words, own, whole, tile, rows[0], keys[0])
        return keys
    parts, ranks = list(runs(store, wanted)), store.ranking.ranks
    ends = [0, *accumulate(counts)]

    def answer(first: int, last: int) -> None:
        if singles:
            for at in range(first, last, BATCH):
                end = min(at + BATCH, last)
                _find_singles(parts, ranks, rows[at:end], keys[at:end])
        else:
            for at in range(first, last):
                _find_sets(parts, ranks, rows[ends[at] : ends[at + 1]], DIRECTIONS.index(direction), keys[at])

    threads = min(config.NUMBA_NUM_THREADS, len(counts), len(rows) * store.nbytes // SHARED_BYTES)
    if threads <= 1:
        answer(0, len(counts))
    else:
        cuts = np.linspace(0, len(counts), threads + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(answer, cuts[:-1], cuts[1:]))
    return keys


def _layout(store: SlideStore) -> list[Layout]:
    """Return what the kernels are given for all single codes of a store, segment by segment; kept until it changes."""
    ranking = store.ranking
    if (known := _LAYOUTS.get(ranking)) is None:
        known = _LAYOUTS[ranking] = []
        for base, segment, whole in runs(store, None):
            words, own = segment.fields["words"], ranking.ranks[base : base + len(segment)]
            known.append((words, own, whole, _tile(words)))
    return known


def _tile(words: Words) -> int:
    """Return how many rows are visited at a time."""
    return min(max(1, TILE_BYTES // (8 * int(words.shape[1]))), TILE_ROWS)


def _find_singles(parts: Sequence[Part], ranks: Int32, queries: Words, keys: Int64) -> None:
    lanes = _in_fours(queries) if len(queries) > 1 else None
    for base, segment, chosen in parts:
        words, own = segment.fields["words"], ranks[base : base + len(segment)]
        if lanes is None:
            nearest_one(words, own, chosen, _tile(words), queries[0], keys[0])
        else:
            nearest_batch(words, own, chosen, _tile(words), lanes, keys)


def _find_sets(parts: Sequence[Part], ranks: Int32, query: Words, direction: int, keys: Int64) -> None:
    lanes = _in_fours(query)
    for base, segment, chosen in parts:
        words, own = segment.fields["words"], ranks[base : base + len(segment)]
        nearest_sets(words, segment.starts, own, chosen, lanes, len(query), direction, keys)


def _in_fours(queries: Words) -> Words:
    """Lay query rows, uint64 (q, words), out for the kernels: (ceil(q / 4), words, 4), filled up with the last row."""
    filled = np.concatenate([queries, np.repeat(queries[-1:], -len(queries) % LANES, axis=0)])
    return np.ascontiguousarray(filled.reshape(-1, LANES, queries.shape[1]).transpose(0, 2, 1))
