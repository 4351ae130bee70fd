"""Compiled Hamming search: xor and popcount over 64-bit words, keeping only what can still be among the k nearest.

Importing this module takes about as long as numpy needs for a billion bytes, so `Hamming` does it only when there is
enough work. Compiled code is cached on disk next to the module, or in the user's cache directory.

Every kernel walks its slides in order with a max-heap of the k smallest *keys* so far. A key is one integer that
sorts like a hit: the distance in the upper bits, in units of a quarter bit so the mean of two medians stays an integer,
and the rank of the slide's id among all ids in the lower bits. Keys therefore identify the hits and include ties.
"""

# The compiler infers argument types; each kernel documents its arrays in its docstring.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from .hamming_lanes import four_distances

RANK_BITS = 32
FARTHEST = np.iinfo(np.int64).max
"""A key larger than any other, to initialise a heap."""
_FAR = np.iinfo(np.int32).max
SHORT = 16
"""Most words in a short row."""


@intrinsic
def _popcount(_: Any, word: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), emit


@njit(cache=True, nogil=True)
def _one_to_run(rows, query, out):
    """Fill out[:len(rows)] with the distances of one query row to a run of stored rows.

    Short rows are processed in fours: a word of the query is loaded once for four rows, which takes two thirds of the
    time at 512 bits. Long rows are read from memory, which is fastest one row after the other.
    """
    size, width = rows.shape
    at = 0
    if width <= SHORT:
        while at + 4 <= size:
            a = b = c = d = np.uint64(0)
            for word in range(width):
                own = query[word]
                a += _popcount(rows[at, word] ^ own)
                b += _popcount(rows[at + 1, word] ^ own)
                c += _popcount(rows[at + 2, word] ^ own)
                d += _popcount(rows[at + 3, word] ^ own)
            out[at], out[at + 1], out[at + 2], out[at + 3] = a, b, c, d
            at += 4
    while at < size:
        total = np.uint64(0)
        for word in range(width):
            total += _popcount(rows[at, word] ^ query[word])
        out[at] = total
        at += 1


@njit(cache=True, nogil=True)
def _four_to_run(rows, lanes, out):
    """Fill out[:4, :len(rows)] for four query rows at once, the columns of `lanes`."""
    for at in range(rows.shape[0]):
        out[0, at], out[1, at], out[2, at], out[3, at] = four_distances(rows, at, lanes)


@njit(cache=True, nogil=True)
def _least(values):
    least = values[0]
    for at in range(values.shape[0]):
        least = min(least, values[at])
    return least


@njit(cache=True, nogil=True)
def _lower_top(heap, value):
    """Replace the largest value of a max-heap by a smaller one."""
    size, at = heap.shape[0], 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value


@njit(cache=True, nogil=True)
def _offer(distances, ranks, keys):
    """Keep what is nearer than the farthest of `keys`. distances: int32 (n,), whole bits. ranks: int32 (n,).

    The minimum of a piece is checked first, since most pieces have nothing to keep.
    """
    top = keys[0]
    limit = np.int32(top >> RANK_BITS + 2)  # in whole bits; FARTHEST becomes the largest possible distance
    for begin in range(0, distances.shape[0], 64):
        piece = distances[begin : begin + 64]
        if _least(piece) > limit:
            continue
        for at in range(piece.shape[0]):
            if piece[at] <= limit:
                key = np.int64(4 * piece[at]) << RANK_BITS | ranks[begin + at]
                if key < top:
                    _lower_top(keys, key)
                    top = keys[0]
                    limit = np.int32(top >> RANK_BITS + 2)


@njit(cache=True, nogil=True)
def nearest_one(stored, ranks, runs, tile, query, keys):
    """Keep in `keys` the slides nearest to one single query, among slides of one row.

    stored: uint64 (n, words). ranks: int32 (n,), of the slides' ids. runs: int64 (r, 2), first and last + 1 of the
    slides to visit. tile: rows compared before they are offered. query: uint64 (words,). keys: int64 (k,), a max-heap.
    """
    out = np.empty(tile, np.int32)
    for run in range(runs.shape[0]):
        for first in range(runs[run, 0], runs[run, 1], tile):
            last = min(first + tile, runs[run, 1])
            _one_to_run(stored[first:last], query, out)
            _offer(out[: last - first], ranks[first:last], keys)


@njit(cache=True, nogil=True)
def nearest_batch(stored, ranks, runs, tile, lanes, keys):
    """Keep in `keys` the slides nearest to each of many single queries, as `nearest_one`.

    tile: rows visited for all queries before the next ones. lanes: uint64 (blocks, words, 4), the queries in fours.
    keys: int64 (q, k), max-heaps.
    """
    size, out = keys.shape[0], np.empty((4, tile), np.int32)
    for run in range(runs.shape[0]):
        for first in range(runs[run, 0], runs[run, 1], tile):
            last = min(first + tile, runs[run, 1])
            for block in range(lanes.shape[0]):
                _four_to_run(stored[first:last], lanes[block], out)
                for query in range(4 * block, min(4 * block + 4, size)):
                    _offer(out[query % 4, : last - first], ranks[first:last], keys[query])


@njit(cache=True, nogil=True)
def _halves_over_query(rows, lanes, size, top, minima, out):
    """Return twice the median over `size` query rows of the minimum over `rows`, or -1 once it must exceed `top`."""
    low, above = (size - 1) // 2, 0
    for block in range(lanes.shape[0]):
        _four_to_run(rows, lanes[block], out)
        for query in range(4 * block, min(4 * block + 4, size)):
            minima[query] = _least(out[query % 4, : rows.shape[0]])
            above += 2 * minima[query] > top
        if above >= size - low:
            return np.int32(-1)
    return _middle_twice(minima[:size])


@njit(cache=True, nogil=True)
def _halves_over_rows(rows, lanes, top, minima):
    """Return twice the median over `rows` of the minimum over query rows, or -1 once it must exceed `top`."""
    size = rows.shape[0]
    low, above = (size - 1) // 2, 0
    for row in range(size):
        least = np.int32(_FAR)
        for block in range(lanes.shape[0]):
            a, b, c, d = four_distances(rows, row, lanes[block])
            least = min(least, a, b, c, d)
        minima[row] = least
        above += 2 * least > top
        if above >= size - low:
            return np.int32(-1)
    return _middle_twice(minima[:size])


@njit(cache=True, nogil=True)
def _middle_twice(values):
    """Sort the values and return twice their median."""
    size = values.shape[0]
    for place in range(1, size):
        value, at = values[place], place
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value
    return np.int32(values[(size - 1) // 2] + values[size // 2])


@njit(cache=True, nogil=True)
def nearest_sets(stored, starts, ranks, shifts, runs, lanes, size, direction, keys):
    """Keep in `keys` the slides nearest to one query set.

    stored: uint64 (rows, words); slide i owns rows starts[i]:starts[i + 1]. ranks: int32 (slides,), of their ids.
    shifts: int64 (slides,), at least 0, quarters of a bit added to their distances. runs: int64 (r, 2), first and
    last + 1 of the slides to visit. lanes: uint64 (blocks, words, 4), the `size` query rows in fours, the last four
    padded with rows of the query. direction: place in `median_of_minima.DIRECTIONS`. keys: int64 (k,), a max-heap.
    """
    longest = size
    for slide in range(starts.shape[0] - 1):
        longest = max(longest, starts[slide + 1] - starts[slide])
    minima, out = np.empty(longest, np.int32), np.empty((4, longest), np.int32)
    for run in range(runs.shape[0]):
        for slide in range(runs[run, 0], runs[run, 1]):
            rows = stored[starts[slide] : starts[slide + 1]]
            top = (keys[0] >> RANK_BITS) - shifts[slide]
            if direction == 0:
                halves = _halves_over_query(rows, lanes, size, top // 2, minima, out)
                quarter = 2 * halves
            elif direction == 1:
                halves = _halves_over_rows(rows, lanes, top // 2, minima)
                quarter = 2 * halves
            else:
                halves = _halves_over_query(rows, lanes, size, top, minima, out)
                quarter = halves
                if halves >= 0:
                    halves = _halves_over_rows(rows, lanes, top - quarter, minima)
                    quarter += halves
            if halves >= 0:
                key = np.int64(quarter + shifts[slide]) << RANK_BITS | ranks[slide]
                if key < keys[0]:
                    _lower_top(keys, key)
