"""A random sample of the tissue patches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.types import Int64
from slideseek_components.selectors.base import SeededSelector
from slideseek_components.selectors.tissue_grid import TissueGrid


@dataclass
class Random(SeededSelector):
    """Draw cells of the tissue grid without replacement, every set of `count` cells being equally likely.

    count: patches per slide; all of them if there are fewer.
    """

    count: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 1:
            raise ValueError(f"count: must be at least 1, not {self.count}")

    def choose(self, grid: TissueGrid) -> Int64:
        """Return `count` random cells."""
        return np.random.default_rng(self.seed).choice(len(grid), min(self.count, len(grid)), replace=False)
