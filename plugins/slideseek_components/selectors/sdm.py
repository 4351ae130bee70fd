"""Selection of distinct morphologies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.types import Int64
from slideseek_components.selectors.base import TissueSelector
from slideseek_components.selectors.cell_colours import distance_to_mean
from slideseek_components.selectors.tissue_grid import TissueGrid


@dataclass
class Sdm(TissueSelector):
    """Take one patch for each integer distance from the mean of the slide's patches.

    After Shafique et al., "Selection of Distinct Morphologies to Divide & Conquer Gigapixel Pathology Images", 2023:
    patches at the same distance from the centroid, rounded to an integer, count as alike and one of them is taken. The
    number of patches depends on the variety of the slide, without a parameter to tune.

    Here the descriptor is the mean colour of a patch, in levels of 0 to 255; the authors use network features at low
    magnification. The patch taken is the middle one of its bin by distance, then row and column.
    """

    def choose(self, grid: TissueGrid) -> Int64:
        """Return the middle cell of each distance bin."""
        distance = distance_to_mean(grid.mean_rgb())
        bins = np.rint(distance).astype(np.int64)
        order = np.lexsort((grid.col, grid.row, distance, bins))
        _, starts, sizes = np.unique(bins[order], return_index=True, return_counts=True)
        return np.asarray(order[starts + (sizes - 1) // 2], dtype=np.int64)
