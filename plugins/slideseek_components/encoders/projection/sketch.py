"""Fold a very wide code into fewer values that keep inner products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slideseek.types import Float64, Int64

WIDEST = 8192
"""Codes up to this width stay as they are: a projection stores `dimensions` values for each value of a code."""

_SEED = 0xC0DE


@dataclass(frozen=True)
class Sketch:
    """Count sketch: every value of a code is added, with a random sign, to one of `size` sums.

    Charikar, Chen, Farach-Colton, "Finding frequent items in data streams" (2002). Inner products are kept on average,
    with an error of about 1 / sqrt(size) of the lengths. The sums and signs follow from the width alone, so nothing is
    stored. Codes of at most `WIDEST` values are not changed.
    """

    width: int

    @property
    def size(self) -> int:
        """Width of the result."""
        return min(self.width, WIDEST)

    def apply(self, values: Float64) -> Float64:
        """Fold float64 (width,) into float64 (size,); sums are taken in the order of the values."""
        if self.width <= WIDEST:
            return values
        return np.bincount(self._sum, weights=values * self._sign, minlength=WIDEST).astype(np.float64, copy=False)

    def pull_back(self, weights: Float64) -> Float64:
        """Return float64 (width,) w with w . values = weights . apply(values)."""
        return weights if self.width <= WIDEST else weights[self._sum] * self._sign

    @cached_property
    def _sum(self) -> Int64:
        return np.random.default_rng([_SEED, self.width, 0]).integers(WIDEST, size=self.width)

    @cached_property
    def _sign(self) -> Float64:
        return np.random.default_rng([_SEED, self.width, 1]).choice(np.array([-1.0, 1.0]), size=self.width)
