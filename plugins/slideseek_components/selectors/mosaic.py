"""Yottixel's mosaic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from slideseek.types import Float64, Int64
from slideseek_components.selectors.base import SeededSelector
from slideseek_components.selectors.cell_colours import histograms
from slideseek_components.selectors.kmeans import kmeans
from slideseek_components.selectors.tissue_grid import TissueGrid

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
    are taken from the slide's thumbnail.
    """

    percent: float = 15.0
    clusters: int = 9
    colour: Colour = "mean-rgb"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.percent <= 100:
            raise ValueError(f"percent: must be above 0 and at most 100, not {self.percent}")
        if self.clusters < 1:
            raise ValueError(f"clusters: must be at least 1, not {self.clusters}")
        if self.colour not in get_args(Colour):
            raise ValueError(f"colour: must be one of {', '.join(get_args(Colour))}, not {self.colour!r}")

    def choose(self, grid: TissueGrid) -> Int64:
        """Return the cells of the mosaic."""
        colours = grid.mean_rgb() if self.colour == "mean-rgb" else histograms(grid)
        groups, _ = kmeans(colours, self.clusters, self.seed)
        places = np.stack([grid.row, grid.col], axis=1).astype(np.float64)
        return np.concatenate([self._spread(places, np.flatnonzero(groups == g)) for g in np.unique(groups)])

    def _spread(self, places: Float64, members: Int64) -> Int64:
        """Choose cells of one colour group, given by their numbers `members`, evenly over its positions."""
        # The small term keeps a share that is an integer in decimal (9.2 % of 750) from falling below it in binary.
        count = max(1, math.floor(len(members) * self.percent / 100 + 1e-9))
        _, centres = kmeans(places[members], count, self.seed)
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
