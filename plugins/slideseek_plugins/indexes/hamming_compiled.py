"""Drive the compiled Hamming kernels: segments, masks, batches and threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numba import config
from numpy.typing import NDArray

from slideseek.types import Int64, Mask

from .hamming_kernels import FARTHEST, find_batch, find_one, find_sets
from .hamming_lanes import LANES
from .segments import Segment
from .sets import DIRECTIONS, Direction
from .store import SlideStore, runs
from .stored_index import Near

TILE_BYTES, TILE_ROWS = 1 << 16, 512
"""Stored rows compared with a whole batch before the next ones are read: small enough to stay in the fast caches."""
BATCH = 64
"""Queries that visit a tile together; bounds the memory for what they find."""
SHARED_BYTES = 1 << 25
"""Least work, in bytes compared, worth a second thread."""

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
    heaps = np.full((len(batch), k), FARTHEST, np.int32)
    lanes = _in_fours(np.concatenate(batch)) if len(batch) > 1 else None
    collected: list[list[Near]] = [[] for _ in batch]
    for base, segment, chosen in parts:
        words, size = segment.fields["words"], _visited(chosen)
        found, quarters = np.empty((len(batch), size), np.int64), np.empty((len(batch), size), np.int32)
        tile = min(max(1, TILE_BYTES // (8 * words.shape[1])), TILE_ROWS)
        if lanes is None:
            counts = [find_one(words, chosen, tile, batch[0][0], heaps[0], found[0], quarters[0])]
        else:
            counts = find_batch(words, chosen, tile, lanes, heaps, found, quarters).tolist()
        most = max(counts)  # the rest of the wide arrays was never written
        slots, distances = found[:, :most] + base, quarters[:, :most] / 4
        for at, count in enumerate(counts):
            collected[at].append((slots[at, :count], distances[at, :count]))
    return [_joined(found) for found in collected]


def _near_sets(parts: Sequence[tuple[int, Segment, Int64]], query: Words, k: int, direction: int) -> Near:
    heap, lanes = np.full(k, FARTHEST, np.int32), _in_fours(query)
    collected = []
    for base, segment, chosen in parts:
        words, size = segment.fields["words"], _visited(chosen)
        found, quarters = np.empty(size, np.int64), np.empty(size, np.int32)
        count = find_sets(words, segment.starts, chosen, lanes, len(query), direction, heap, found, quarters)
        collected.append((found[:count] + base, quarters[:count] / 4))
    return _joined(collected)


def _in_fours(queries: Words) -> Words:
    """Lay query rows, uint64 (q, words), out for the kernels: (ceil(q / 4), words, 4), filled up with the last row."""
    filled = np.concatenate([queries, np.repeat(queries[-1:], -len(queries) % LANES, axis=0)])
    return np.ascontiguousarray(filled.reshape(-1, LANES, queries.shape[1]).transpose(0, 2, 1))


def _visited(chosen: Int64) -> int:
    """Count the slides in runs."""
    return int(chosen[0, 1] - chosen[0, 0] if len(chosen) == 1 else (chosen[:, 1] - chosen[:, 0]).sum())


def _joined(parts: Sequence[Near]) -> Near:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([slots for slots, _ in parts]), np.concatenate([distances for _, distances in parts])
