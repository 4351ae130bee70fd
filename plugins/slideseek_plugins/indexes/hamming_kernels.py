"""Compiled Hamming search: xor and popcount over 64-bit words, keeping only what can still be among the k nearest.

Importing this module costs about as much as numpy needs for a billion bytes, so `Hamming` does it only when there is
enough work. Compiled code is cached on disk beside the module, or in the user's cache directory.

Every kernel walks its slides in order with a max-heap of the k smallest distances so far, in units of a quarter bit so
that the mean of two medians stays a whole number. A slide is *found* when its distance is not above the top of the
heap at that moment: all slides of the final answer are found, with every tie at the cut, and few others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

TILE_BYTES = 1 << 16
"""Stored rows visited for all queries of a batch before the next ones are read: they stay in the fast caches."""


@intrinsic
def _popcount(_: Any, word: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), emit


@njit(cache=True, nogil=True)
def _distance(row, query, width):  # type: ignore[no-untyped-def]
    total = np.uint64(0)
    for word in range(width):
        total += _popcount(row[word] ^ query[word])
    return total


@njit(cache=True, nogil=True)
def _one_to_run(rows, query, out):  # type: ignore[no-untyped-def]
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
def _four_to_run(rows, queries, out):  # type: ignore[no-untyped-def]
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
def _least(values):  # type: ignore[no-untyped-def]
    least = values[0]
    for at in range(values.shape[0]):
        least = min(least, values[at])
    return least


@njit(cache=True, nogil=True)
def _lower_top(heap, value):  # type: ignore[no-untyped-def]
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
def _find(distances, first, heap, found, quarters, count):  # type: ignore[no-untyped-def]
    """Append the slides first, first + 1, ... that are not above the top of the heap; return the new count.

    distances: whole bits. The minimum of a run is checked first, since most runs hold nothing to find.
    """
    top = heap[0]
    if 4 * _least(distances) > top:
        return count
    for at in range(distances.shape[0]):
        quarter = 4 * distances[at]
        if quarter <= top:
            found[count], quarters[count] = first + at, quarter
            count += 1
            if quarter < top:
                _lower_top(heap, quarter)
                top = heap[0]
    return count


@njit(cache=True, nogil=True)
def find_singles(stored, queries, heaps, found, quarters, counts, tile):  # type: ignore[no-untyped-def]
    """Find the slides near each single query among slides of one row.

    stored: uint64 (n, words). queries: uint64 (q, words). heaps: int32 (q, k). found, quarters: int32 (q, n), filled
    from the left, counts: int64 (q,) entries. tile: rows visited for all queries before the next ones.
    """
    size = queries.shape[0]
    out = np.empty((4, tile), np.int32)
    for first in range(0, stored.shape[0], tile):
        rows = stored[first : first + tile]
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


@njit(cache=True, nogil=True)
def find_chosen(stored, slides, query, heap, found, quarters):  # type: ignore[no-untyped-def]
    """Find the slides near one single query among the chosen slides of one row; return how many were found.

    slides: int64 (n,), rows of `stored`. found: int32 (n,), places in `slides`.
    """
    count, out = 0, np.empty(1, np.int32)
    for place in range(slides.shape[0]):
        _one_to_run(stored[slides[place] : slides[place] + 1], query, out)
        count = _find(out, place, heap, found, quarters, count)
    return count


@njit(cache=True, nogil=True)
def _halves(outer, inner, top, minima, out):  # type: ignore[no-untyped-def]
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
def find_sets(stored, starts, slides, query, direction, heap, found, quarters):  # type: ignore[no-untyped-def]
    """Find the chosen slides near one query set; return how many were found.

    stored: uint64 (rows, words); slide i owns rows starts[i]:starts[i + 1]. slides: int64 (n,). query: uint64
    (q, words). direction: place in `sets.DIRECTIONS`. found: int32 (n,), places in `slides`.
    """
    longest = query.shape[0]
    for place in range(slides.shape[0]):
        longest = max(longest, starts[slides[place] + 1] - starts[slides[place]])
    minima, out = np.empty(longest, np.int32), np.empty(longest, np.int32)
    count = 0
    for place in range(slides.shape[0]):
        rows = stored[starts[slides[place]] : starts[slides[place] + 1]]
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
            found[count], quarters[count] = place, quarter
            count += 1
            if quarter < top:
                _lower_top(heap, quarter)
    return count
