"""Mean pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.interfaces import Attributable, KeepsSpace
from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.attribution import directions
from slideseek_components.encoders.bags import canonical_chunks, canonical_sum, finite_features
from slideseek_components.encoders.normalise import unit


@dataclass
class Mean(Attributable, KeepsSpace):
    """Average the patch features, in float64 and in a canonical order: the code does not depend on the patch order.

    l2: divide by the Euclidean norm (a zero mean stays zero).
    """

    code_revision: ClassVar[int] = 1

    l2: bool = False

    @property
    def in_feature_space(self) -> bool:
        """Return True: the mean of one patch is its features."""
        return True

    def spec(self, width: int) -> CodeSpec:
        """Return one row of `width` floats."""
        return CodeSpec("float", width)

    def encode(self, bag: Bag) -> Code:
        """Return the mean as float32 (1, width)."""
        return self._code(bag, self._mean(bag))

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the cosine of the bag's code and `code` over the patches; see `Attributable`."""
        mean = self._mean(bag)
        towards = directions(bag, self._code(bag, mean), mean, code)
        parts = np.empty(len(bag))
        for rows, chunk in canonical_chunks(bag.features):
            parts[rows] = (chunk * towards).sum(axis=1) / len(bag)
        return parts

    def _mean(self, bag: Bag) -> Float64:
        return canonical_sum(finite_features(bag)) / len(bag)

    def _code(self, bag: Bag, mean: Float64) -> Code:
        return Code(bag.slide_id, (unit(mean) if self.l2 else mean).astype(np.float32)[None])
