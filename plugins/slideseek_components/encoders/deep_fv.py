"""The deep Fisher vector: float codes of the gradient, signed root and unit length, and their attribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.interfaces import Attributable
from slideseek.types import Bag, Code, CodeKind, Float32, Float64
from slideseek_components.encoders.attribution import directions
from slideseek_components.encoders.deep.device import reproducible
from slideseek_components.encoders.deep.encoder import DeepFisher
from slideseek_components.encoders.normalise import signed_root, unit


@dataclass
class DeepFisherVector(DeepFisher, Attributable):
    """C-Deep-FV: the network is trained only on Eq. 7, and the code is the normalised gradient of Eq. 15.

    keep: entries of the gradient in a code, 0 for all. power: signed square root. l2: unit length.
    """

    keep: int = 0
    power: bool = True
    l2: bool = True

    name: ClassVar[str] = "deep-fv"
    kind: ClassVar[CodeKind] = "float"

    def _keep(self) -> int:
        return self.keep

    def _floats(self, values: Float32 | Float64) -> Float64:
        row: Float64 = values.astype(np.float64)
        row = signed_root(row) if self.power else row
        return unit(row) if self.l2 else row

    def _code(self, bag: Bag, values: Float32 | Float64) -> Code:
        return Code(bag.slide_id, self._floats(values).astype(np.float32)[None], self.space_of(bag))

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the cosine of the bag's code and `code` over the patches; see `Attributable`."""
        if self.projector_:
            return self._projected_contributions(self.projector_, bag, code)
        mine, shares = self.encode(bag), self._coder().shares(bag)
        with reproducible(1):
            return shares.weigh(directions(bag, mine, shares.mean(), code))
