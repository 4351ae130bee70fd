"""Single entries of a matrix product, added up in float64 without taking the whole product."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from slideseek.types import Float64, Int32

_BLOCK = 16
"""Rows multiplied at a time: a column of float32 is then one line of the cache. Another value would be another order of
additions."""


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _gather(values: NDArray[Any], columns: Int32, start: int, out: NDArray[Any]) -> None:
    """Copy rows `start` to `start` + 16 of the `columns` of `values` (n, p) to `out` (len(columns), 16); 0 beyond n."""
    if start + _BLOCK <= values.shape[0]:
        for j in range(len(columns)):
            for t in range(_BLOCK):
                out[j, t] = values[start + t, columns[j]]
    else:
        for j in range(len(columns)):
            for t in range(_BLOCK):
                out[j, t] = values[start + t, columns[j]] if start + t < values.shape[0] else 0.0


@numba.njit(cache=True, nogil=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator]
def entry_sums(
    left: NDArray[Any], right: NDArray[Any], rows: Int32, columns: Int32, row: Int32, column: Int32
) -> Float64:
    """Return float64 (m,): sum_t left[t, rows[row[i]]] * right[t, columns[column[i]]] for i below len(column), and
    sum_t left[t, rows[row[i]]] for the rest.

    left (n, p) and right (n, q) are float32 or float64. rows, columns: the distinct ones that are met; row (m,) and
    column: numbers into them. Products are exact for float32. The order of additions is that of the compiled loop
    over a fixed number of rows, so a sum is the same bits whatever else is asked for beside it.
    """
    out = np.zeros(len(row))
    a, b = np.empty((len(rows), _BLOCK), left.dtype), np.empty((len(columns), _BLOCK), right.dtype)
    for start in range(0, left.shape[0], _BLOCK):
        _gather(left, rows, start, a)
        _gather(right, columns, start, b)
        for i in range(len(column)):
            total = 0.0
            for t in range(_BLOCK):
                total += np.float64(a[row[i], t]) * np.float64(b[column[i], t])
            out[i] += total
        for i in range(len(column), len(row)):
            total = 0.0
            for t in range(_BLOCK):
                total += np.float64(a[row[i], t])
            out[i] += total
    return out
