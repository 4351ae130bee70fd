"""Single entries of a matrix product, summed in float64 without computing the whole product."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from slideseek.types import Float64, Int32

_BLOCK = 128
"""Rows multiplied at a time. Another value would change the order of additions."""

_TILE = 8
"""Rows copied at a time. Rows of a power-of-two size map to few cache lines, and more rows would evict them."""


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _gather(values: NDArray[Any], columns: Int32, start: int, count: int, out: NDArray[Any]) -> None:
    """Copy `count` rows of the `columns` of `values` (n, p), from row `start` on, to `out` (len(columns), >= count)."""
    tiled = count - count % _TILE
    for first in range(0, tiled, _TILE):
        for j in range(len(columns)):
            for t in range(_TILE):
                out[j, first + t] = values[start + first + t, columns[j]]
    for t in range(tiled, count):
        for j in range(len(columns)):
            out[j, t] = values[start + t, columns[j]]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator]
def entry_sums(
    left: NDArray[Any], right: NDArray[Any], rows: Int32, columns: Int32, row: Int32, column: Int32
) -> Float64:
    """Return float64 (m,): sum_t left[t, rows[row[i]]] * right[t, columns[column[i]]] for i below len(column), and
    sum_t left[t, rows[row[i]]] for the rest.

    left (n, p) and right (n, q) are float32 or float64. rows, columns: the distinct ones used; row (m,) and
    column: positions in them. Products of float32 are exact. In the compiled loop the order of additions depends only
    on n, so a sum has the same bits regardless of the other sums computed with it.
    """
    out = np.zeros(len(row))
    most = min(_BLOCK, left.shape[0])
    a, b = np.empty((len(rows), most), left.dtype), np.empty((len(columns), most), right.dtype)
    for start in range(0, left.shape[0], _BLOCK):
        count = min(_BLOCK, left.shape[0] - start)
        _gather(left, rows, start, count, a)
        _gather(right, columns, start, count, b)
        for i in range(len(column)):
            total = 0.0
            for t in range(count):
                total += np.float64(a[row[i], t]) * np.float64(b[column[i], t])
            out[i] += total
        for i in range(len(column), len(row)):
            total = 0.0
            for t in range(count):
                total += np.float64(a[row[i], t])
            out[i] += total
    return out
