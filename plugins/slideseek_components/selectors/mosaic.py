"""Yottixel's mosaic."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from slideseek.options import ADDED_LATER
from slideseek.types import Float64, Int64
from slideseek_components.selectors.base import SeededSelector
from slideseek_components.selectors.cell_colours import histograms
from slideseek_components.selectors.kmeans import kmeans
from slideseek_components.selectors.tissue_grid import TissueGrid

SAMPLE = 500
"""Cells that the k-means of a bounded mosaic learns from, up to twice as many; the others join the nearest centre."""

Colour = Literal["mean-rgb", "histogram"]


@dataclass
class Mosaic(SeededSelector):
    """Group the tissue patches by colour, and choose patches of each group spread over the slide.

    Kalra et al., "Yottixel: an image search engine for large archives of histopathology whole slide images",
    Medical Image Analysis 65 (2020). k-means splits the patches into colour groups; a second k-means places
    `percent` % of a group's size as centres over the group's rows and columns, at least one; each centre takes the
    nearest patch of the group that is not yet taken.

    percent: share of each colour group to choose. clusters: colour groups, fewer if there are fewer patches or
    distinct colours. colour: `mean-rgb` as in Yottixel's released code, or `histogram` (3 x 256) as in its paper; both
    are taken from the slide's thumbnail. most: patches per slide at most, 0 for no limit; above it every group gives
    up the same share, and keeps at least one.
    """

    percent: float = 15.0
    clusters: int = 9
    colour: Colour = "mean-rgb"
    most: int = field(default=0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.percent <= 100:
            raise ValueError(f"percent: must be above 0 and at most 100, not {self.percent}")
        if self.clusters < 1:
            raise ValueError(f"clusters: must be at least 1, not {self.clusters}")
        if self.colour not in get_args(Colour):
            raise ValueError(f"colour: must be one of {', '.join(get_args(Colour))}, not {self.colour!r}")
        if self.most < 0:
            raise ValueError(f"most: must be at least 0, not {self.most}")

    def choose(self, grid: TissueGrid) -> Int64:
        """Return the cells of the mosaic."""
        colours = grid.mean_rgb() if self.colour == "mean-rgb" else histograms(grid)
        clusters = min(self.clusters, self.most) if self.most else self.clusters
        groups, _ = kmeans(colours, clusters, self.seed, self._sample)
        places = np.stack([grid.row, grid.col], axis=1).astype(np.float64)
        members = [np.flatnonzero(groups == g) for g in np.unique(groups)]
        counts = self._counts([len(group) for group in members])
        return np.concatenate([self._spread(places, *pair) for pair in zip(members, counts)])

    @property
    def _sample(self) -> int:
        """Points that k-means learns from at most, 0 for all: a bounded mosaic is made in bounded time."""
        return SAMPLE if self.most else 0

    def _counts(self, sizes: list[int]) -> list[int]:
        """Return how many cells to choose of colour groups of these sizes."""
        # The small term keeps a share that is an integer in decimal (9.2 % of 750) from falling below it in binary.
        counts = [max(1, math.floor(size * self.percent / 100 + 1e-9)) for size in sizes]
        if self.most and sum(counts) > self.most:
            counts = [max(1, size * self.most // sum(sizes)) for size in sizes]
            while sum(counts) > self.most:
                counts[counts.index(max(counts))] -= 1
        return counts

    def _spread(self, places: Float64, members: Int64, count: int) -> Int64:
        """Choose `count` cells of one colour group, given by their numbers `members`, evenly over its positions."""
        _, centres = kmeans(places[members], count, self.seed, self._sample)
        return members[nearest_free(places[members], centres)]


def nearest_free(points: Float64, centres: Float64) -> Int64:
    """Give each centre in turn the nearest point not yet taken; of equally near points, the first.

    points: (n, d). centres: (k, d), k <= n. Returns k different numbers of points, int64 (k,).
    """
    taken = np.zeros(len(points), dtype=np.bool_)
    chosen = np.empty(len(centres), dtype=np.int64)
    for i, centre in enumerate(centres):
        # Centres have rounding noise; without rounding, it would decide between two equally near patches.
        distance = np.round(np.square(points - centre).sum(axis=1), 9)
        chosen[i] = np.argmin(np.where(taken, np.inf, distance))
        taken[chosen[i]] = True
    return chosen
