"""Max pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.interfaces import Encoder
from slideseek.types import Bag, Code, CodeSpec
from slideseek_components.encoders.bags import finite_features
from slideseek_components.encoders.normalise import unit


@dataclass
class Max(Encoder):
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
        # Adding 0 turns -0 into +0: which of the two the maximum returns depends on the order of the patches.
        top = finite_features(bag).max(axis=0).astype(np.float64) + 0.0
        return Code(bag.slide_id, (unit(top) if self.l2 else top).astype(np.float32)[None])
