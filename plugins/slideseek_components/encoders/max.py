"""Max pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.interfaces import Attributable
from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.attribution import directions
from slideseek_components.encoders.bags import finite_features
from slideseek_components.encoders.normalise import unit


@dataclass
class Max(Attributable):
    """Take the largest value of every feature over the patches.

    l2: divide by the Euclidean norm (all zeros stay zeros).
    """

    code_revision: ClassVar[int] = 1

    l2: bool = False

    def spec(self, width: int) -> CodeSpec:
        """Return one row of `width` floats."""
        return CodeSpec("float", width)

    def encode(self, bag: Bag) -> Code:
        """Return the maxima as float32 (1, width)."""
        return self._code(bag, self._top(bag))

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the cosine of the bag's code and `code` over the patches; see `Attributable`.

        A maximum belongs to the patch that has it, or in equal parts to those that have it.
        """
        top = self._top(bag)
        towards = directions(bag, self._code(bag, top), top, code)
        has = finite_features(bag) == top.astype(np.float32)
        share: Float64 = (has * (top * towards / has.sum(axis=0))).sum(axis=1)
        return share

    def _top(self, bag: Bag) -> Float64:
        # Adding 0 turns -0 into +0: which of the two the maximum returns depends on the order of the patches.
        top: Float64 = finite_features(bag).max(axis=0).astype(np.float64) + 0.0
        return top

    def _code(self, bag: Bag, top: Float64) -> Code:
        return Code(bag.slide_id, (unit(top) if self.l2 else top).astype(np.float32)[None])
