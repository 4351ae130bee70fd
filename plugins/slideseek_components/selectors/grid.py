"""Every tissue patch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.types import Int64
from slideseek_components.selectors.base import TissueSelector
from slideseek_components.selectors.tissue_grid import TissueGrid


@dataclass
class Grid(TissueSelector):
    """Take every tissue cell of the grid."""

    def choose(self, grid: TissueGrid) -> Int64:
        """Return all cells."""
        return np.arange(len(grid))
