"""The memory-based exchangeable model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from slideseek_components.encoders.set_networks.encoder import SetEncoder
from slideseek_components.encoders.set_networks.network import SetNetwork, layers
from slideseek_components.encoders.set_networks.pooling import Pool


class MemoryNetwork(SetNetwork):
    """A memory block and a layer that joins what its units gather.

    Each unit turns the patches' hidden layers into memories m_t = tanh(A h_t). How much a patch is attended to is the
    mean over s of softmax over t of (m_t . m_s), and the unit's output is the sum of h_t with these weights. That is
    the mean over s of what the query m_s gathers, so memory does not grow with the square of the slide.
    """

    def __init__(
        self,
        width: int,
        hidden: Sequence[int],
        classes: Sequence[int],
        dropout: float,
        units: int,
        memory: int,
        queries: int,
    ) -> None:
        super().__init__(width, hidden, classes, dropout)
        self.units, self.queries = units, queries
        self.memories = nn.Linear(hidden[-1], units * memory)
        self.join = layers((units * hidden[-1], hidden[-1]), 0.0)

    def embed(self, pool: Pool) -> Tensor:
        pool = pool.through(self.patch)
        some, real = pool.some(self.queries)
        asked = self._memories(some)  # (slides, s, units, memory)
        slides, count = asked.shape[:2]

        def view(h: Tensor) -> tuple[Tensor, Tensor]:
            scores = torch.einsum("btum,bsum->btus", self._memories(h), asked)
            return scores.reshape(slides, h.shape[1], self.units * count), h

        gathered = pool.mean(view).reshape(slides, self.units, count, -1)
        weights = real.float() / real.sum(1, keepdim=True)
        means = torch.einsum("bush,bs->buh", gathered, weights)
        embedding: Tensor = self.join(means.reshape(slides, -1))
        return embedding

    def _memories(self, h: Tensor) -> Tensor:
        found: Tensor = torch.tanh(self.memories(h))
        return found.reshape(*h.shape[:2], self.units, -1)


@dataclass
class MemorySet(SetEncoder):
    """Weight patches by how they correlate with the other patches of the slide, in several learnt memories.

    Kalra, Adnan, Taylor and Tizhoosh, "Learning permutation invariant representations using memory networks" (ECCV
    2020). One memory block, followed by one layer that joins its units.

    units: memory units. memory: size of a memory. queries: most patches of a slide whose correlation with all others is
    computed, spread evenly over the slide's patches; a slide with no more patches than these is treated exactly as in
    the paper.
    """

    units: int = 4
    memory: int = 32
    queries: int = 128

    name: ClassVar[str] = "memory-set"

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("units", "memory", "queries"):
            if getattr(self, option) < 1:
                raise ValueError(f"{option}: at least 1, not {getattr(self, option)}")

    def _network(self, width: int, classes: Sequence[int]) -> SetNetwork:
        sizes = (self.units, self.memory, self.queries)
        return MemoryNetwork(width, self.hidden, classes, self.dropout, *sizes)
