"""A patch order that depends on the set of features alone.

Floating-point addition is not associative, so a sum over patches depends on their order in its last bits, and the
sign of a value near zero with it. Sums taken in this order are the same bits however the patches arrive.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slideseek.types import Float32, Float64, Int64

CHUNK = 256
"""Rows summed at a time. Fixed: another value would be another order of additions, so it is no option."""


def canonical_order(features: Float32) -> Int64:
    """Return the int64 (n,) row order that sorts the rows of `features` by their bytes.

    Rows that tie are identical, so which of them comes first changes no sum. Rows are compared in place: a
    memory-mapped array is not copied.
    """
    rows = np.ascontiguousarray(features)
    keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def canonical_rows(features: Float32) -> Iterator[Int64]:
    """Yield the row numbers of `features` in canonical order, `CHUNK` rows at a time."""
    order = canonical_order(features)
    for start in range(0, len(order), CHUNK):
        yield order[start : start + CHUNK]


def canonical_chunks(features: Float32) -> Iterator[tuple[Int64, Float32]]:
    """Yield (row numbers, rows) of `features` in canonical order, `CHUNK` rows at a time."""
    for rows in canonical_rows(features):
        yield rows, features[rows]


def canonical_sum(features: Float32) -> Float64:
    """Return the float64 (width,) sum of the rows, the same bits whatever their order."""
    total = np.zeros(features.shape[1], dtype=np.float64)
    for _, rows in canonical_chunks(features):
        total += rows.astype(np.float64).sum(axis=0)
    return total
