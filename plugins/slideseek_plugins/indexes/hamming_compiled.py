"""Drive the compiled Hamming kernels: segments, masks, batches and threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numba import config
from numpy.typing import NDArray

from slideseek.types import Int64, Mask

from .hamming_kernels import find_sets, find_singles
from .sets import DIRECTIONS, Direction
from .store import Segment, SlideStore, runs
from .stored_index import Near

TILE_BYTES, TILE_ROWS = 1 << 16, 512
"""Stored rows compared with a whole batch before the next ones are read: small enough to stay in the fast caches."""
BATCH = 64
"""Queries that visit a tile together; bounds the memory for what they find."""
SHARED_BYTES = 1 << 25
"""Least work, in bytes compared, worth a second thread."""
FARTHEST = np.iinfo(np.int32).max

Words = NDArray[np.uint64]


def find(store: SlideStore, queries: Sequence[Words], wanted: Mask | None, k: int, direction: Direction) -> list[Near]:
    """Return for each query the slots that can be among its k nearest, ties at the cut included, and their distances.

    queries: uint64 (rows, words) each. wanted: bool (slots,), None for all. Queries are shared between
    threads, as many as NUMBA_NUM_THREADS says or the process may run at once; a single query runs in the caller's.
    """
    parts = [part for part in runs(store, wanted) if len(part[2])]
    rows = sum([len(query) for query in queries])
    singles = rows == len(queries) and all(segment.single for _, segment, _ in parts)

    def answer(share: Sequence[Words]) -> list[Near]:
        if singles:
            batches = [share[first : first + BATCH] for first in range(0, len(share), BATCH)]
            return [found for batch in batches for found in _near_singles(parts, batch, k)]
        return [_near_sets(parts, query, k, DIRECTIONS.index(direction)) for query in share]

    threads = min(config.NUMBA_NUM_THREADS, len(queries), rows * store.nbytes // SHARED_BYTES)
    if threads <= 1:
        return answer(queries)
    cuts = np.linspace(0, len(queries), threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        shares = pool.map(answer, [queries[first:last] for first, last in pairwise(cuts)])
        return [found for share in shares for found in share]


def _near_singles(parts: Sequence[tuple[int, Segment, Int64]], batch: Sequence[Words], k: int) -> list[Near]:
    queries = batch[0] if len(batch) == 1 else np.concatenate(batch)
    heaps = np.full((len(queries), k), FARTHEST, np.int32)
    collected: list[list[Near]] = [[] for _ in queries]
    for base, segment, chosen in parts:
        words = segment.fields["words"]
        size = _visited(chosen)
        found, quarters = np.empty((len(queries), size), np.int64), np.empty((len(queries), size), np.int32)
        tile = min(max(1, TILE_BYTES // (8 * words.shape[1])), TILE_ROWS)
        counts = find_singles(words, chosen, tile, queries, heaps, found, quarters)
        for at, count in enumerate(counts.tolist()):
            collected[at].append((found[at, :count] + base, quarters[at, :count] / 4))
    return [_joined(found) for found in collected]


def _near_sets(parts: Sequence[tuple[int, Segment, Int64]], query: Words, k: int, direction: int) -> Near:
    heap = np.full(k, FARTHEST, np.int32)
    collected = []
    for base, segment, chosen in parts:
        size = _visited(chosen)
        found, quarters = np.empty(size, np.int64), np.empty(size, np.int32)
        words = segment.fields["words"]
        count = find_sets(words, segment.starts, chosen, query, direction, heap, found, quarters)
        collected.append((found[:count] + base, quarters[:count] / 4))
    return _joined(collected)


def _visited(chosen: Int64) -> int:
    """Count the slides in runs."""
    return int(chosen[0, 1] - chosen[0, 0] if len(chosen) == 1 else (chosen[:, 1] - chosen[:, 0]).sum())


def _joined(parts: Sequence[Near]) -> Near:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([slots for slots, _ in parts]), np.concatenate([distances for _, distances in parts])
