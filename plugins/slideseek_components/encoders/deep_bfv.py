"""The deep binary Fisher vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slideseek_components.encoders.deep.binary import BinaryDeepFisher


@dataclass
class DeepBinaryFisherVector(BinaryDeepFisher):
    """C-Deep-BFV: training also draws the gradient to its own sign (Eq. 14), and the code is the sign.

    lambda_binary: weight of the squared distance to the sign (lambda 5).
    """

    name: ClassVar[str] = "deep-bfv"
