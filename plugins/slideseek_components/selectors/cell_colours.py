"""Colour descriptors of grid cells, taken from the slide's thumbnail."""

from __future__ import annotations

import math

import numpy as np

from slideseek.types import Float64, Int64
from slideseek_components.selectors.tissue_grid import TissueGrid


def distance_to_mean(colours: Float64) -> Float64:
    """Return how far each row of `colours` (n, d) is from their mean, float64 (n,), for any order of rows."""
    # fsum is exact, so the mean is the same to the last bit for any order of the rows.
    mean = np.array([math.fsum(column) for column in colours.T]) / len(colours)
    return np.asarray(np.linalg.norm(colours - mean, axis=1), dtype=np.float64)


def histograms(grid: TissueGrid) -> Float64:
    """Return the colour histogram of each cell, float64 (n, 768): 256 shares of red, then green, then blue."""
    across, down = grid.spans
    left, right = _whole_pixels(across)
    top, bottom = _whole_pixels(down)
    offsets = np.array([0, 256, 512])
    rows = np.empty((len(grid), 768))
    for i in range(len(grid)):
        cell = grid.thumbnail[top[i] : bottom[i], left[i] : right[i]] + offsets
        rows[i] = np.bincount(cell.ravel(), minlength=768) * (3 / cell.size)
    return rows


def _whole_pixels(spans: Float64) -> tuple[Int64, Int64]:
    """Round spans (n, 2) to pixels, from and to (exclusive), with at least one pixel per span."""
    begin = np.floor(spans[:, 0]).astype(np.int64)
    return begin, np.maximum(np.rint(spans[:, 1]).astype(np.int64), begin + 1)
