"""Binary codes of the deep Fisher encoders, and their attribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.types import Bag, Code, CodeKind, Float32, Float64
from slideseek_components.encoders.attribution import check_comparable
from slideseek_components.encoders.deep.device import reproducible
from slideseek_components.encoders.deep.encoder import DeepFisher


@dataclass
class BinaryDeepFisher(DeepFisher):
    """A deep Fisher encoder whose codes are bits: 1 iff the (centred) gradient is above 0.

    bits: entries of the gradient in a code, 0 for all.
    """

    bits: int = 0
    lambda_binary: float | None = None

    kind: ClassVar[CodeKind] = "bits"

    def _keep(self) -> int:
        return self.bits

    def _code(self, bag: Bag, values: Float32 | Float64) -> Code:
        return Code(bag.slide_id, np.packbits(values > 0)[None], self.space_of(bag))

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the share of equal bits of the bag's code and `code` over the patches; see `Attributable`."""
        mine, evidence = self.encode(bag), self._evidence(bag)
        check_comparable(bag, mine, code)
        width = self.spec(bag.width).width
        own, other = (np.unpackbits(rows[0], count=width).astype(np.bool_) for rows in (mine.rows, code.rows))
        with reproducible(1):
            return evidence.pushes(own, own == other)
