"""The deep sparse Fisher vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.types import Bag, Code, CodeKind, Float32, Float64
from slideseek_components.encoders.deep_fv import DeepFisherVector


@dataclass
class DeepSparseFisherVector(DeepFisherVector):
    """C-Deep-SFV: training also lowers the L1 norm of the gradient (Eq. 8), so few entries are large.

    lambda_sparse: weight of that norm (lambda 4). cut: entries below this share of the slide's largest are set to
    zero, which makes the code sparse.
    """

    lambda_sparse: float | None = None
    cut: float = 0.01

    name: ClassVar[str] = "deep-sfv"
    kind: ClassVar[CodeKind] = "sparse"

    def __post_init__(self) -> None:
        if not 0 <= self.cut < 1:
            raise ValueError(f"cut: at least 0 and below 1, not {self.cut}")
        if self.projection not in (None, "none"):
            raise ValueError(f"projection: none, because projected codes are not sparse, not {self.projection!r}")
        self.projection = "none"
        if self.preset == "best" and self.lambda_sparse is None:
            self.lambda_sparse = 1e-4
        super().__post_init__()

    def _code(self, bag: Bag, values: Float32 | Float64) -> Code:
        size = np.abs(values)
        return super()._code(bag, np.where(size >= self.cut * size.max(initial=0.0), values, 0.0))
