"""Compiled Hamming search: xor and popcount over 64-bit words, keeping only what can still be among the k nearest.

Importing this module costs about as much as numpy needs for a billion bytes, so `Hamming` does it only when there is
enough work. Compiled code is cached on disk beside the module, or in the user's cache directory.

Every kernel walks its slides in order with a max-heap of the k smallest distances so far, in units of a quarter bit so
that the mean of two medians stays a whole number. A slide is *found* when its distance is not above the top of the
heap at that moment; in the end the found slides above the top are dropped, so that the k nearest and their ties remain.
"""

# Argument types are found by the compiler; each kernel states its arrays in its docstring.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic


@intrinsic
def _popcount(_: Any, word: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), emit


@njit(cache=True, nogil=True)
def _distance(row, query, width):
    total = np.uint64(0)
    for word in range(width):
        total += _popcount(row[word] ^ query[word])
    return total


@njit(cache=True, nogil=True)
def _one_to_run(rows, query, out):
    """Fill out[:len(rows)] with the distances of one query row to a run of stored rows.

    Usual short widths have their own loop, which the compiler unrolls: half the time at 512 bits.
    """
    if rows.shape[1] == 8:
        for at in range(rows.shape[0]):
            out[at] = _distance(rows[at], query, 8)
    elif rows.shape[1] == 16:
        for at in range(rows.shape[0]):
            out[at] = _distance(rows[at], query, 16)
    else:
        for at in range(rows.shape[0]):
            out[at] = _distance(rows[at], query, rows.shape[1])


@njit(cache=True, nogil=True)
def _four_to_run(rows, queries, out):
    """Fill out[:4, :len(rows)] for four query rows at once: each stored word is loaded once."""
    for at in range(rows.shape[0]):
        a, b, c, d = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        for word in range(rows.shape[1]):
            bits = rows[at, word]
            a += _popcount(bits ^ queries[0, word])
            b += _popcount(bits ^ queries[1, word])
            c += _popcount(bits ^ queries[2, word])
            d += _popcount(bits ^ queries[3, word])
        out[0, at], out[1, at], out[2, at], out[3, at] = a, b, c, d


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
def _find(distances, first, heap, found, quarters, count):
    """Append the slides first, first + 1, ... that are not above the top of the heap; return the new count.

    distances: whole bits. The minimum of a piece is checked first, since most pieces hold nothing to find.
    """
    for begin in range(0, distances.shape[0], 64):
        piece = distances[begin : begin + 64]
        if 4 * _least(piece) > heap[0]:
            continue
        for at in range(piece.shape[0]):
            quarter = 4 * piece[at]
            if quarter <= heap[0]:
                found[count], quarters[count] = first + begin + at, quarter
                count += 1
                if quarter < heap[0]:
                    _lower_top(heap, quarter)
    return count


@njit(cache=True, nogil=True)
def _trim(found, quarters, count, top):
    """Drop what was found before the top of the heap came down to `top`; return the new count."""
    kept = 0
    for at in range(count):
        if quarters[at] <= top:
            found[kept], quarters[kept] = found[at], quarters[at]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def find_singles(stored, runs, tile, queries, heaps, found, quarters):
    """Find the slides near each single query among slides of one row; return how many were found, int64 (q,).

    stored: uint64 (n, words). runs: int64 (r, 2), first and last + 1 of the slides to visit. tile: rows visited for
    all queries before the next ones. queries: uint64 (q, words). heaps: int32 (q, k). found: int64 and quarters: int32
    (q, slides to visit), filled from the left.
    """
    size = queries.shape[0]
    counts, out = np.zeros(size, np.int64), np.empty((4, tile), np.int32)
    for run in range(runs.shape[0]):
        for first in range(runs[run, 0], runs[run, 1], tile):
            rows = stored[first : min(first + tile, runs[run, 1])]
            query = 0
            while query < size:
                group = 4 if size - query >= 4 else 1
                if group == 4:
                    _four_to_run(rows, queries[query : query + 4], out)
                else:
                    _one_to_run(rows, queries[query], out[0])
                for member in range(group):
                    at = query + member
                    distances = out[member, : rows.shape[0]]
                    counts[at] = _find(distances, first, heaps[at], found[at], quarters[at], counts[at])
                query += group
    for at in range(size):
        counts[at] = _trim(found[at], quarters[at], counts[at], heaps[at, 0])
    return counts


@njit(cache=True, nogil=True)
def _halves(outer, inner, top, minima, out):
    """Return twice the median over `outer` rows of the minimum over `inner` rows, or -1 once it must exceed `top`."""
    size = outer.shape[0]
    low, above = (size - 1) // 2, 0
    for row in range(size):
        _one_to_run(inner, outer[row], out)
        least = _least(out[: inner.shape[0]])
        above += 2 * least > top
        if above >= size - low:
            return np.int32(-1)
        at = row
        while at > 0 and minima[at - 1] > least:
            minima[at] = minima[at - 1]
            at -= 1
        minima[at] = least
    return np.int32(minima[low] + minima[size // 2])


@njit(cache=True, nogil=True)
def find_sets(stored, starts, runs, query, direction, heap, found, quarters):
    """Find the slides near one query set; return how many were found.

    stored: uint64 (rows, words); slide i owns rows starts[i]:starts[i + 1]. runs: int64 (r, 2), first and last + 1 of
    the slides to visit. query: uint64 (q, words). direction: place in `sets.DIRECTIONS`. heap: int32 (k,). found: int64
    and quarters: int32 (slides to visit,), filled from the left.
    """
    longest = query.shape[0]
    for slide in range(starts.shape[0] - 1):
        longest = max(longest, starts[slide + 1] - starts[slide])
    minima, out = np.empty(longest, np.int32), np.empty(longest, np.int32)
    count = 0
    for run in range(runs.shape[0]):
        for slide in range(runs[run, 0], runs[run, 1]):
            rows = stored[starts[slide] : starts[slide + 1]]
            top = heap[0]
            if direction == 0:
                halves = _halves(query, rows, top // 2, minima, out)
                quarter = 2 * halves
            elif direction == 1:
                halves = _halves(rows, query, top // 2, minima, out)
                quarter = 2 * halves
            else:
                halves = _halves(query, rows, top, minima, out)
                quarter = halves
                if halves >= 0:
                    halves = _halves(rows, query, top - quarter, minima, out)
                    quarter += halves
            if halves >= 0 and quarter <= top:
                found[count], quarters[count] = slide, quarter
                count += 1
                if quarter < top:
                    _lower_top(heap, quarter)
    return _trim(found, quarters, count, heap[0])
