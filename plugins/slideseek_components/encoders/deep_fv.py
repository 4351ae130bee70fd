"""The deep Fisher vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slideseek_components.encoders.deep.floats import FloatDeepFisher


@dataclass
class DeepFisherVector(FloatDeepFisher):
    """C-Deep-FV: the network is trained on Eq. 7 alone and the code is the normalised gradient of Eq. 15."""

    name: ClassVar[str] = "deep-fv"
