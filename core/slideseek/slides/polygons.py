"""What lies inside polygons: pixels of a mask and single points, by the same even-odd rule.

A point is inside if a ray from it to the left crosses the edges of all rings an odd number of times. Holes may
therefore overlap, and an outline drawn by hand may cross itself. Edges are half open: of two polygons that share an
edge, exactly one contains a point on it.

shapely does not fit. A point on a shared edge is in neither polygon for `contains_xy` and in both for `intersects_xy`:
tissue outlined in two pieces would lose a line of pixels or count it twice. It treats holes that overlap or leave the
outer ring differently. And it cannot fill a mask: testing every pixel of 4096 x 4096 takes 1.9 s and 256 MiB of
coordinates, while `fill` takes 0.1 s. For 100,000 points in rows both take 0.007 s; for scattered points shapely takes
0.02 s and `points_in_polygons` 0.06 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from slideseek.types import Float64, Int64, Mask

Polygon: TypeAlias = list[Float64]
"""Rings of float64 (n, 2), x and y in level-0 pixels: the outer one first, then the holes."""

_CROSSINGS = 2**20
"""Crossings of edges and rows held at once: bounds the memory a hostile polygon can use."""


def fill(rings: Sequence[Float64], shape: tuple[int, int]) -> Mask:
    """Return bool (h, w) = `shape`, true where the centre of a pixel lies inside the rings.

    rings: float64 (n, 2) each, x and y in pixels of the mask; they need not repeat their first point.
    """
    height, width = shape

    def first_right_of(row: Int64, x: Float64) -> Int64:
        return row * width + np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)

    return _inside(rings, np.arange(height, dtype=np.float64) + 0.5, height * width, first_right_of).reshape(shape)


def fill_polygons(polygons: Iterable[Polygon], scale: tuple[float, float], shape: tuple[int, int]) -> Mask:
    """Return bool (h, w) = `shape`, true where the centre of a pixel lies in one of the polygons.

    scale: pixels of the mask per unit of the polygons, across and down.
    """
    mask = np.zeros(shape, dtype=np.bool_)
    for rings in polygons:
        scaled = [ring * np.array(scale) for ring in rings]
        # Fill only the part of the mask around the polygon: a file may contain thousands of small ones.
        left, top = (max(0, math.floor(edge)) for edge in scaled[0].min(axis=0))
        right, bottom = np.minimum(np.ceil(scaled[0].max(axis=0)), shape[::-1]).astype(int)
        if left < right and top < bottom:
            part = fill([ring - (left, top) for ring in scaled], (int(bottom - top), int(right - left)))
            mask[top:bottom, left:right] |= part
    return mask


def points_in_polygons(polygons: Iterable[Polygon], points: Float64) -> Mask:
    """Return which points, float64 (n, 2) in the frame of the polygons, lie in one of the polygons: bool (n,)."""
    held = np.zeros(len(points), dtype=np.bool_)
    for rings in polygons:
        corners = np.concatenate(rings)
        near = np.flatnonzero(((points >= corners.min(axis=0)) & (points <= corners.max(axis=0))).all(axis=1))
        held[near] |= _points_in_rings(rings, points[near])
    return held


def _points_in_rings(rings: Sequence[Float64], points: Float64) -> Mask:
    """Return which points, float64 (n, 2), lie inside the rings of one polygon: bool (n,)."""
    rows, row_of = np.unique(points[:, 1], return_inverse=True)
    # Complex numbers are ordered by their real part, then by their imaginary one: here by row, then by x.
    places = row_of + 1j * points[:, 0]
    order = np.argsort(places)
    ordered = places[order]
    inside = np.empty(len(points), dtype=np.bool_)
    inside[order] = _inside(rings, rows, len(points), lambda row, x: np.searchsorted(ordered, row + 1j * x))
    return inside


def _inside(
    rings: Sequence[Float64], rows: Float64, count: int, first_right_of: Callable[[Int64, Float64], Int64]
) -> Mask:
    """Return which of `count` samples, numbered row by row from left to right, lie inside the rings: bool (count,).

    rows: float64 (r,), the y of each row, ascending. first_right_of: the number of the first sample at or to the right
    of each crossing, given its row (k,) and its x (k,).
    """
    flips = np.zeros(count + 1, dtype=np.uint8)
    for row, x in _crossings(rings, rows):
        # Overflow is harmless: 256 is even.
        np.add.at(flips, first_right_of(row, x), np.uint8(1))
    # A closed ring crosses a row an even number of times, so no row passes a flip on to the next.
    return np.asarray(np.cumsum(flips[:-1], dtype=np.uint8) & 1, dtype=np.bool_)


def _crossings(rings: Sequence[Float64], rows: Float64) -> Iterator[tuple[Int64, Float64]]:
    """Yield where edges cross rows, in bounded portions: the row number, int64 (k,), and x, float64 (k,)."""
    start = np.concatenate(rings)
    end = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])
    # An edge crosses the rows from its upper end, included, to its lower end, left out: a corner counts once.
    first = np.searchsorted(rows, np.minimum(start[:, 1], end[:, 1]))
    crossed = np.searchsorted(rows, np.maximum(start[:, 1], end[:, 1])) - first
    ends = np.cumsum(crossed)
    for begin in range(0, int(ends[-1]), _CROSSINGS):
        number = np.arange(begin, min(begin + _CROSSINGS, int(ends[-1])))
        edge = np.searchsorted(ends, number, side="right")
        row = first[edge] + number - (ends[edge] - crossed[edge])
        (x0, y0), (x1, y1) = start[edge].T, end[edge].T
        yield row, x0 + (rows[row] - y0) * (x1 - x0) / (y1 - y0)
