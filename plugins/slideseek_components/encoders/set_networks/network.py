"""What a network over sets is: a slide to its embedding, and from there to the probabilities of its classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from slideseek_components.encoders.set_networks.pooling import Pool


class SetNetwork(nn.Module, ABC):
    """A network over the patches of a slide.

    hidden: sizes of the layers that every patch passes; the last is also the size of an embedding. classes: how many
    there are to tell apart, a number for each head; empty for a network that only encodes. dropout: in training.
    """

    def __init__(self, width: int, hidden: Sequence[int], classes: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.patch = layers((width, *hidden), dropout)
        self.heads = nn.ModuleList([nn.Linear(hidden[-1], count) for count in classes])

    @abstractmethod
    def embed(self, pool: Pool) -> Tensor:
        """Return the embeddings of slides, (slides, size)."""

    def classify(self, pool: Pool) -> list[Tensor]:
        """Return for each head the logarithm of the class probabilities, (slides, classes)."""
        embedding = F.dropout(self.embed(pool), self.dropout, self.training)
        return [F.log_softmax(head(embedding), dim=1) for head in self.heads]


def layers(sizes: Sequence[int], dropout: float) -> nn.Sequential:
    """Return fully connected layers of these sizes, each followed by ReLU and dropout."""
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*parts)
