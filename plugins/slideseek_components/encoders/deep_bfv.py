"""The deep binary Fisher vector: codes of bits, the sign of the gradient, and their attribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.interfaces import Attributable
from slideseek.types import Bag, Code, CodeKind, Float32, Float64
from slideseek_components.encoders.attribution import check_comparable
from slideseek_components.encoders.deep.device import reproducible
from slideseek_components.encoders.deep.encoder import DeepFisher


@dataclass
class DeepBinaryFisherVector(DeepFisher, Attributable):
    """C-Deep-BFV: training also pulls the gradient towards its own sign (Eq. 14), and the code is the sign.

    A bit is 1 where the (centred) gradient is above 0.

    bits: entries of the gradient in a code, 0 for all; of a projected code, its bits, 0 for 5,000.

    lambda_binary: weight of the squared distance to the sign (lambda 5).
    """

    bits: int = 0
    lambda_binary: float | None = None

    name: ClassVar[str] = "deep-bfv"
    kind: ClassVar[CodeKind] = "bits"

    def _keep(self) -> int:
        return self.bits

    def _bits(self) -> int:
        return self.bits or 5000

    def _code(self, bag: Bag, values: Float32 | Float64) -> Code:
        return Code(bag.slide_id, np.packbits(values > 0)[None], self.space_of(bag))

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the share of equal bits of the bag's code and `code` over the patches; see `Attributable`."""
        if self.projector_:
            return self._projected_contributions(self.projector_, bag, code)
        mine, shares = self.encode(bag), self._coder().shares(bag)
        check_comparable(bag, mine, code)
        width = self.spec(bag.width).width
        own, other = (np.unpackbits(rows[0], count=width).astype(np.bool_) for rows in (mine.rows, code.rows))
        with reproducible(1):
            return shares.pushes(own, own == other)
