"""Single entries of a matrix product, added up in float64 without writing the factors out."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from slideseek.types import Float64, Int32


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_products(left: NDArray[Any], right: NDArray[Any], row: Int32, column: Int32, out: Float64) -> None:
    """Add sum_t left[t, row[i]] * right[t, column[i]] to out[i], for i below len(column), and sum_t left[t, row[i]]
    for the rest.

    left (n, p) and right (n, q) are float32 or float64. One row of each is in the cache while all entries are
    visited, and terms are added in the order of the rows, whatever the number of threads.
    """
    for t in range(left.shape[0]):
        for i in range(len(column)):
            out[i] += np.float64(left[t, row[i]]) * np.float64(right[t, column[i]])
        for i in range(len(column), len(row)):
            out[i] += np.float64(left[t, row[i]])
