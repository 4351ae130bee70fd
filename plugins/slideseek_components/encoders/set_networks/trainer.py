"""Train a network over sets on batches of slides, reproducibly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from slideseek.errors import SlideseekError
from slideseek.types import Bag, Float32, Int64
from slideseek_components.encoders.bags import canonical_order
from slideseek_components.encoders.set_networks.classes import UNKNOWN, Classes
from slideseek_components.encoders.set_networks.network import SetNetwork
from slideseek_components.encoders.set_networks.pooling import BatchPool

HELD = 2**26
"""Most feature values kept in memory between epochs (256 MiB); slides beyond are read again in every epoch."""


@dataclass
class Trainer:
    """One training run.

    bags, counts, classes: all training slides, and how many patches each has. learn, stop: int64, the numbers of the
    slides to learn from and of those to stop early on (none for a fixed number of epochs). prepare: rows of features
    (n, width) to the input of the network. patches: most patches of a slide in a step, drawn again in every epoch.
    batch: slides per step.
    """

    network: SetNetwork
    bags: Sequence[Bag]
    counts: Int64
    classes: Classes
    learn: Int64
    stop: Int64
    prepare: Callable[[Float32], Tensor]
    epochs: int
    patience: int
    batch: int
    patches: int
    learning_rate: float
    weight_decay: float
    seed: int
    held: dict[int, Tensor] = field(default_factory=dict, repr=False)

    def run(self) -> int:
        """Train to the last epoch or the early stop, and return the number of epochs; the network has the best weights.

        Call it inside `reproducible`: dropout and the order of slides follow from the seed.
        """
        optimiser = torch.optim.Adam(self.network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        best, best_loss, waited, epoch = {}, math.inf, 0, 0
        for epoch in range(1, self.epochs + 1):
            self._epoch(optimiser, epoch)
            if len(self.stop):
                loss = self._loss_on(self.stop)
                if loss < best_loss:
                    best_loss, waited = loss, 0
                    best = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
                else:
                    waited += 1
                if waited >= self.patience:
                    break
        if best:
            self.network.load_state_dict(best)
        if not all(bool(parameter.isfinite().all()) for parameter in self.network.parameters()):
            raise SlideseekError("training diverged: the weights are not finite", "lower learning_rate")
        self.network.eval()
        return epoch

    def _epoch(self, optimiser: torch.optim.Optimizer, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        self.network.train()
        for slides in self._batches(rng.permutation(self.learn)):
            optimiser.zero_grad()
            torch.autograd.backward(self._loss(slides, rng))
            optimiser.step()

    def _loss_on(self, slides: Int64) -> float:
        rng, total = np.random.default_rng([self.seed, 0]), 0.0
        self.network.eval()
        with torch.no_grad():
            for some in self._batches(slides):
                total += float(self._loss(some, rng)) * len(some)
        return total / len(slides)

    def _batches(self, slides: Int64) -> Iterator[Int64]:
        for start in range(0, len(slides), self.batch):
            yield slides[start : start + self.batch]

    def _loss(self, slides: Int64, rng: np.random.Generator) -> Tensor:
        """Return the mean over heads of the cross-entropy; a head none of the slides has a class for adds nothing."""
        drawn = [self._draw(int(i), rng) for i in slides]
        most = max(len(x) for x in drawn)
        x = torch.stack([F.pad(own, (0, 0, 0, most - len(own))) for own in drawn])
        real = torch.tensor([[i < len(own) for i in range(most)] for own in drawn], device=x.device)
        truth = torch.from_numpy(self.classes.numbers[slides]).to(x.device)
        found = self.network.classify(BatchPool(x, real))
        losses = [
            F.nll_loss(logs, truth[:, head], ignore_index=UNKNOWN, reduction="sum")
            / (truth[:, head] != UNKNOWN).sum().clamp(min=1)
            for head, logs in enumerate(found)
        ]
        return torch.stack(losses).mean()

    def _draw(self, slide: int, rng: np.random.Generator) -> Tensor:
        """Return at most `patches` rows of a slide, each equally likely, whatever the order they are stored in."""
        count = self.counts[slide]
        chosen = np.arange(count) if count <= self.patches else np.sort(rng.permutation(count)[: self.patches])
        if slide not in self.held:
            features = self.bags[slide].features
            order = canonical_order(features)
            if sum(own.numel() for own in self.held.values()) + features.size > HELD:
                return self.prepare(features[order[chosen]])
            self.held[slide] = self.prepare(features[order])
        held = self.held[slide]
        return held if len(chosen) == len(held) else held[torch.from_numpy(chosen).to(held.device)]
