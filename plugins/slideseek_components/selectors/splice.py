"""SPLICE: sequential removal of patches that look like one already taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.types import Int64
from slideseek_components.selectors.base import TissueSelector
from slideseek_components.selectors.cell_colours import distance_to_mean
from slideseek_components.selectors.tissue_grid import TissueGrid


@dataclass
class Splice(TissueSelector):
    """Go through the patches, take each remaining one and drop those that look most like it.

    After Alsaafin et al., "SPLICE - Streamlining Digital Pathology Image Processing", 2024: of the remaining patches,
    those whose colour is within the `percentile`-th percentile of the distances to the taken one are redundant and
    dropped. The number of patches grows with the logarithm of the number of tissue patches.

    Here the walk starts at the patch nearest to the slide's mean colour and goes outwards, equal distances by row and
    column, so the result does not depend on the order of the patches.

    percentile: share of the remaining patches, in percent, that each taken one represents.
    """

    percentile: float = 25.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.percentile < 100:
            raise ValueError(f"percentile: must be above 0 and below 100, not {self.percentile}")

    def choose(self, grid: TissueGrid) -> Int64:
        """Return the cells that are not redundant."""
        colours = grid.mean_rgb()
        left = np.lexsort((grid.col, grid.row, distance_to_mean(colours)))
        chosen = []
        while len(left):
            current, left = left[0], left[1:]
            chosen.append(current)
            if len(left):
                distance = np.linalg.norm(colours[left] - colours[current], axis=1)
                left = left[distance > np.percentile(distance, self.percentile)]
        return np.array(chosen, dtype=np.int64)
