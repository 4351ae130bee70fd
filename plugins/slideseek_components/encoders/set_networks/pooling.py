"""Weighted means over the patches of slides: of a batch in training, of one slide of any size in encoding.

A network over sets is written once, against `Pool`. All networks here are made of weighted means over patches. The
weights are exp(score), divided by their sum: equal scores give the plain mean, learnt scores give attention.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from slideseek.types import Float32
from slideseek_components.encoders.bags import canonical_order, canonical_rows

View: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Patches (slides, n, width) -> the scores (slides, n, heads) and values (slides, n, size) of each."""


class Pool(ABC):
    """The patches of one slide or several."""

    @abstractmethod
    def through(self, layers: Callable[[Tensor], Tensor]) -> Pool:
        """Return the same slides with every patch passed through layers, in training only once."""

    @abstractmethod
    def mean(self, view: View) -> Tensor:
        """Return (slides, heads, size): for each head the mean of the values, weighted by exp(score)."""

    @abstractmethod
    def some(self, most: int) -> tuple[Tensor, Tensor]:
        """Return at most `most` patches per slide, (slides, m, width), and which are real, bool (slides, m)."""


@dataclass(frozen=True)
class BatchPool(Pool):
    """Slides of a training batch. x: float32 (slides, n, width), padded. real: bool (slides, n), at least one each."""

    x: Tensor
    real: Tensor

    def through(self, layers: Callable[[Tensor], Tensor]) -> BatchPool:
        return replace(self, x=layers(self.x))

    def mean(self, view: View) -> Tensor:
        scores, values = view(self.x)
        weights = torch.softmax(scores.masked_fill(~self.real[..., None], -torch.inf), dim=1)
        return weights.transpose(1, 2) @ values

    def some(self, most: int) -> tuple[Tensor, Tensor]:
        return self.x[:, :most], self.real[:, :most]


@dataclass(frozen=True)
class SlidePool(Pool):
    """One slide, read in chunks: memory does not grow with it, and no bit depends on the order of its patches.

    features: float32 (n, width), as stored. prepare: turns rows of it into the input (rows, width) of the network.
    """

    features: Float32
    prepare: Callable[[Float32], Tensor]

    def through(self, layers: Callable[[Tensor], Tensor]) -> SlidePool:
        return replace(self, prepare=lambda rows: layers(self.prepare(rows)))

    def mean(self, view: View) -> Tensor:
        # exp(score) may overflow: all weights are relative to the largest score so far.
        largest, total, sums = torch.empty(0), torch.empty(0), torch.empty(0)
        for rows in canonical_rows(self.features):
            x = self.prepare(self.features[rows])[None]
            scores, values = (part[0].cpu().double() for part in view(x))
            if not len(sums):
                largest = torch.full((scores.shape[1],), -torch.inf, dtype=torch.float64)
                total = torch.zeros(scores.shape[1], dtype=torch.float64)
                sums = torch.zeros(scores.shape[1], values.shape[1], dtype=torch.float64)
            highest = torch.maximum(largest, scores.amax(0))
            shrink, weights = torch.exp(largest - highest), torch.exp(scores - highest)
            total = total * shrink + weights.sum(0)
            sums = sums * shrink[:, None] + weights.T @ values
            largest = highest
        return (sums / total[:, None]).float()[None].to(x.device)

    def some(self, most: int) -> tuple[Tensor, Tensor]:
        order = canonical_order(self.features)
        even = np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).astype(np.int64))
        x = self.prepare(self.features[order[even]])[None]
        return x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
