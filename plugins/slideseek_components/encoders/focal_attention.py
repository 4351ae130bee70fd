"""Attention with a focal factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slideseek_components.encoders.set_networks.encoder import SetEncoder
from slideseek_components.encoders.set_networks.network import SetNetwork, layers
from slideseek_components.encoders.set_networks.pooling import Pool


class FocalNetwork(SetNetwork):
    """Attention a_t = sigmoid(f(h_t, g)) of a patch in the context g of its slide; the embedding is the mean of h_t
    weighted by it. In training every patch predicts the classes, p_t, and the slide's prediction is the mean of
    p_t ^ gamma with the same weights, where the focal factor gamma of each class is computed from g."""

    def __init__(
        self, width: int, hidden: Sequence[int], classes: Sequence[int], dropout: float, attention: int
    ) -> None:
        super().__init__(width, hidden, classes, dropout)
        size = hidden[-1]
        self.context = layers((size, size), 0.0)
        self.attention = nn.Sequential(nn.Linear(2 * size, attention), nn.Tanh(), nn.Linear(attention, 1))
        self.focal = nn.ModuleList([nn.Linear(size, count) for count in classes])

    def embed(self, pool: Pool) -> Tensor:
        pool = pool.through(self.patch)
        context = self._context(pool)

        def view(h: Tensor) -> tuple[Tensor, Tensor]:
            return self._scores(h, context), h

        return pool.mean(view)[:, 0]

    def classify(self, pool: Pool) -> list[Tensor]:
        pool = pool.through(self.patch)
        context, found = self._context(pool), []
        for head, focal in zip(self.heads, self.focal):
            # At the start gamma is about 1: the attention-weighted mean of plain probabilities.
            gamma = F.softplus(focal(context) + 0.5413)

            def view(h: Tensor, head: nn.Module = head, gamma: Tensor = gamma) -> tuple[Tensor, Tensor]:
                return self._scores(h, context), torch.exp(gamma[:, None] * F.log_softmax(head(h), dim=-1))

            shares = pool.mean(view)[:, 0]
            found.append(torch.log(shares.clamp(min=1e-12)) - torch.log(shares.sum(1, keepdim=True).clamp(min=1e-12)))
        return found

    def _context(self, pool: Pool) -> Tensor:
        """Return the context of slides, (slides, size), from the hidden layers of their patches."""

        def view(h: Tensor) -> tuple[Tensor, Tensor]:
            return h.new_zeros(*h.shape[:2], 1), self.context(h)

        return pool.mean(view)[:, 0]

    def _scores(self, h: Tensor, context: Tensor) -> Tensor:
        beside = context[:, None].expand(-1, h.shape[1], -1)
        # exp(log sigmoid) is the sigmoid: a mean weighted by it, divided by its sum.
        return F.logsigmoid(self.attention(torch.cat([h, beside], dim=2)))


@dataclass
class FocalAttention(SetEncoder):
    """Weight patches by an attention that knows the whole slide, trained through focused predictions of each patch.

    Kalra, Adnan, Hemati, Dehkharghanian, Rahnamayan and Tizhoosh, "Pay attention with focus: a novel learning scheme
    for classification of whole slide images" (MICCAI 2021). The paper classifies; the code here is the last hidden
    layer of its patch classifier, averaged with its attention.

    attention: size of the layer the attention is computed in.
    """

    attention: int = 64

    name: ClassVar[str] = "focal-attention"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention < 1:
            raise ValueError(f"attention: at least 1, not {self.attention}")

    def _network(self, width: int, classes: Sequence[int]) -> SetNetwork:
        return FocalNetwork(width, self.hidden, classes, self.dropout, self.attention)
