"""The deep sparse binary Fisher vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector


@dataclass
class DeepSparseBinaryFisherVector(DeepBinaryFisherVector):
    """C-Deep-SBFV: both gradient losses, and the code is the sign of the `bits` most informative entries.

    lambda_sparse, lambda_binary: weights of the L1 norm and of the distance to the sign (lambda 4 and 5).
    """

    bits: int = 5000
    lambda_sparse: float | None = None

    name: ClassVar[str] = "deep-sbfv"
