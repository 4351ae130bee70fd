"""Between a mask and the rings around it, exactly: both run along the edges of pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import ndimage

from slideseek.types import Float64, Int64, Mask

_CROSSINGS = 2**22
"""Crossings of edges and rows held at once while filling, which bounds the memory a hostile polygon can take."""


def outlines(mask: Mask) -> list[list[Float64]]:
    """Return the closed rings of each 4-connected object: the outer one first, then its holes.

    mask: bool (h, w). A ring is float64 (n, 2), x and y of pixel corners, the first point repeated at the end.
    """
    labels, count = ndimage.label(mask)
    objects: list[list[Float64]] = [[] for _ in range(count)]
    leaving = _edges(mask)
    stride = mask.shape[1] + 1
    edges = [bytearray(edge.tobytes()) for edge in leaving]
    for y, x in np.argwhere(leaving[0]).tolist():
        if edges[0][y * stride + x]:
            # Going down the rows, the outer ring of an object is met before any of its holes.
            objects[labels[y, x] - 1].append(_trace(edges, stride, y * stride + x))
    return objects


def fill(rings: Sequence[Float64], shape: tuple[int, int]) -> Mask:
    """Return bool (h, w), true where the centre of a pixel lies inside the rings (even-odd rule).

    rings: float64 (n, 2) each, x and y in pixels of the mask; they need not repeat their first point.
    """
    height, width = shape
    flips = np.zeros((height, width + 1), dtype=np.int32)
    for ring in rings:
        start, end = ring, np.roll(ring, -1, axis=0)
        # Rows whose centre lies in [low, high): half open, so that a corner counts once.
        low, high = np.minimum(start[:, 1], end[:, 1]), np.maximum(start[:, 1], end[:, 1])
        first = np.clip(np.ceil(low - 0.5), 0, height).astype(np.int64)
        rows = np.clip(np.ceil(high - 0.5), 0, height).astype(np.int64) - first
        for edge, step in _crossings(rows):
            row = first[edge] + step
            (x0, y0), (x1, y1) = start[edge].T, end[edge].T
            crossing = x0 + (row + 0.5 - y0) * (x1 - x0) / (y1 - y0)
            column = np.clip(np.ceil(crossing - 0.5), 0, width).astype(np.int64)
            np.add.at(flips, (row, column), 1)
    return np.asarray(np.cumsum(flips, axis=1)[:, :width] % 2 == 1, dtype=np.bool_)


def _crossings(rows: Int64) -> Iterator[tuple[Int64, Int64]]:
    """Yield, in bounded portions, edge number and row within the edge, for edges that cross `rows` (n,) rows each."""
    ends = np.cumsum(rows)
    for begin in range(0, int(ends[-1]), _CROSSINGS):
        number = np.arange(begin, min(begin + _CROSSINGS, int(ends[-1])))
        edge = np.searchsorted(ends, number, side="right")
        yield edge, number - (ends[edge] - rows[edge])


def _edges(mask: Mask) -> list[Mask]:
    """Return four bool (h + 1, w + 1): whether an edge leaves corner (y, x) to the right, down, left, up.

    The object lies to the right of every edge in walking direction.
    """
    inside = np.pad(mask, 1)
    core = inside[1:-1, 1:-1]
    edges = [np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), dtype=np.bool_) for _ in range(4)]
    edges[0][:-1, :-1] = core & ~inside[:-2, 1:-1]
    edges[1][:-1, 1:] = core & ~inside[1:-1, 2:]
    edges[2][1:, 1:] = core & ~inside[2:, 1:-1]
    edges[3][1:, :-1] = core & ~inside[1:-1, :-2]
    return edges


def _trace(edges: list[bytearray], stride: int, start: int) -> Float64:
    """Follow the edges from corner `start` to the right until they close, and take them out.

    A corner is numbered y * stride + x. Returned are the corners where the ring turns.
    """
    steps = (1, stride, -1, -stride)
    corners, at, heading = [start], start, 0
    while True:
        at += steps[heading]
        # The sharpest turn towards the object first, so that objects that only touch at a corner stay apart.
        turn = next(turn % 4 for turn in (heading + 1, heading, heading + 3) if edges[turn % 4][at])
        edges[turn][at] = 0
        if turn != heading:
            corners.append(at)
        if (at, turn) == (start, 0):
            break
        heading = turn
    y, x = np.divmod(np.array(corners), stride)
    return np.stack([x, y], axis=1).astype(np.float64)
