"""The distance between two sets of rows: the median over one set of the minimum over the other.

A single vector is a set of one, for which this is the plain distance between two rows. The median of an even number
of values is the mean of the two in the middle, as in numpy.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Float64, Int64

Direction: TypeAlias = Literal["query", "target", "symmetric"]
"""`query`: median over query rows of the minimum over target rows; `target`: the other way round; `symmetric`: the
mean of both."""

DIRECTIONS: tuple[Direction, ...] = ("query", "target", "symmetric")


def set_distances(between: NDArray[Any], starts: Int64, direction: Direction) -> Float64:
    """Return the set distance (n,) from the query to each of n slides.

    between: (query rows, target rows), distances between rows; slide i has columns starts[i]:starts[i + 1], at least
    one.
    """
    if direction == "query":
        return _from_query(between, starts)
    if direction == "target":
        return _from_target(between, starts)
    return (_from_query(between, starts) + _from_target(between, starts)) / 2


def _from_query(between: NDArray[Any], starts: Int64) -> Float64:
    minima = np.minimum.reduceat(between, starts[:-1], axis=1)
    medians: Float64 = np.median(minima, axis=0).astype(np.float64)
    return medians


def _from_target(between: NDArray[Any], starts: Int64) -> Float64:
    counts = np.diff(starts)
    minima = between.min(axis=0)
    ordered = minima[np.lexsort((minima, np.repeat(np.arange(len(counts)), counts)))].astype(np.float64)
    medians: Float64 = (ordered[starts[:-1] + (counts - 1) // 2] + ordered[starts[:-1] + counts // 2]) / 2
    return medians
