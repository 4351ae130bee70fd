"""Attention pooling: gated attention-based multiple instance learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from slideseek_components.encoders.set_networks.encoder import SetEncoder
from slideseek_components.encoders.set_networks.network import SetNetwork
from slideseek_components.encoders.set_networks.pooling import Pool


class AttentionNetwork(SetNetwork):
    """sum_t a_t h_t, with a_t = softmax over patches of w (tanh(V h_t) * sigmoid(U h_t))."""

    def __init__(
        self, width: int, hidden: Sequence[int], classes: Sequence[int], dropout: float, attention: int, gated: bool
    ) -> None:
        super().__init__(width, hidden, classes, dropout)
        self.v = nn.Linear(hidden[-1], attention)
        self.u = nn.Linear(hidden[-1], attention) if gated else None
        self.w = nn.Linear(attention, 1)

    def embed(self, pool: Pool) -> Tensor:
        def view(h: Tensor) -> tuple[Tensor, Tensor]:
            inner = torch.tanh(self.v(h))
            return self.w(inner if self.u is None else inner * torch.sigmoid(self.u(h))), h

        return pool.through(self.patch).mean(view)[:, 0]


@dataclass
class AttentionMil(SetEncoder):
    """Take the mean of the patches' hidden layers, weighted by a learnt attention to each patch.

    Ilse, Tomczak and Welling, "Attention-based deep multiple instance learning" (ICML 2018).

    attention: size of the layer the attention is computed in. gated: multiply its tanh by a sigmoid, the paper's gated
    variant.
    """

    attention: int = 64
    gated: bool = True

    name: ClassVar[str] = "attention-mil"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention < 1:
            raise ValueError(f"attention: at least 1, not {self.attention}")

    def _network(self, width: int, classes: Sequence[int]) -> SetNetwork:
        return AttentionNetwork(width, self.hidden, classes, self.dropout, self.attention, self.gated)
