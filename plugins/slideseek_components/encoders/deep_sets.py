"""Deep Sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from slideseek_components.encoders.set_networks.encoder import SetEncoder
from slideseek_components.encoders.set_networks.network import SetNetwork, layers
from slideseek_components.encoders.set_networks.pooling import Pool


class DeepSetsNetwork(SetNetwork):
    """rho(mean over patches of phi(x)): phi has the layers of a patch, rho one more of the same size."""

    def __init__(self, width: int, hidden: Sequence[int], classes: Sequence[int], dropout: float) -> None:
        super().__init__(width, hidden, classes, dropout)
        self.rho = layers((hidden[-1], hidden[-1]), 0.0)

    def embed(self, pool: Pool) -> Tensor:
        def view(h: Tensor) -> tuple[Tensor, Tensor]:
            return h.new_zeros(*h.shape[:2], 1), h

        embedding: Tensor = self.rho(pool.through(self.patch).mean(view)[:, 0])
        return embedding


@dataclass
class DeepSets(SetEncoder):
    """Pass every patch through the same layers, take the mean, and pass it through one more layer.

    Zaheer, Kottur, Ravanbakhsh, Póczos, Salakhutdinov and Smola, "Deep sets" (NeurIPS 2017); for whole-slide images
    Hemati, Kalra, Meaney, Babaie, Ghodsi and Tizhoosh, "CNN and Deep Sets for end-to-end whole slide image
    representation learning" (MIDL 2021). The mean instead of the sum: codes do not depend on the size of a slide.
    """

    name: ClassVar[str] = "deep-sets"

    def _network(self, width: int, classes: Sequence[int]) -> SetNetwork:
        return DeepSetsNetwork(width, self.hidden, classes, self.dropout)
