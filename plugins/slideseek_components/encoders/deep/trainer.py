"""Train a `CVAE` on single patches, epoch by epoch; a killed run continues with the same bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from slideseek.errors import SlideseekError
from slideseek.interfaces import Progress
from slideseek.types import Bag
from slideseek_components.encoders.deep.checkpoint import (
    LogRow,
    TrainingState,
    drop_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from slideseek_components.encoders.deep.loss import Terms, cvae_terms, penalised_gradients
from slideseek_components.encoders.deep.network import CVAE, Inputs
from slideseek_components.encoders.deep.settings import Settings
from slideseek_components.encoders.deep.stream import Batch, PatchStream
from slideseek_components.encoders.deep.training_set import TrainingSet


class DivergedError(SlideseekError):
    """The losses or the weights became infinite or NaN."""


@dataclass
class Trainer:
    """One training run: what is trained, on what, and how.

    pool: patches the shuffle pool holds. amp: bfloat16 autocast on CUDA.
    """

    network: CVAE
    settings: Settings
    inputs: Inputs
    bags: Sequence[Bag]
    known: TrainingSet
    seed: int
    pool: int
    device: torch.device
    amp: bool = False

    def __post_init__(self) -> None:
        self.network.to(self.device)
        self._names = [name for name, _ in self.network.named_parameters()]
        self._parameters = list(self.network.parameters())
        batch = self.settings.batch_size
        self._stream = PatchStream(self.bags, self.known.training_counts, self.known.width, batch, self.pool, self.seed)
        self._held_out = PatchStream(
            self.bags, self.known.validation_counts, self.known.width, batch, self.pool, self.seed
        )
        self._optimiser = torch.optim.Adam(
            self._parameters, lr=self.settings.learning_rate, weight_decay=self.settings.weight_decay, fused=True
        )

    @property
    def _epochs(self) -> int:
        """Epochs to train for: fewer than `epochs` where these take more than `steps` steps."""
        most = self.settings.steps
        return min(self.settings.epochs, -(-most // max(1, self._stream.steps))) if most else self.settings.epochs

    def run(self, folder: Path | None, fingerprint: str, progress: Progress | None) -> list[LogRow]:
        """Train to the last epoch or the early stop, and return the log; the network then holds the best weights.

        folder: where checkpoints are written and looked for, None for none.
        """
        shapes = {name: p.shape for name, p in self.network.named_parameters()}
        state = read_checkpoint(folder, fingerprint, shapes) if folder else None
        if state is None:
            state = TrainingState(0, {}, {}, {}, {}, math.inf, 0, 0, [])
        else:
            self._restore(state)
        settings = self.settings
        while state.epoch < self._epochs and not (settings.patience and state.waited >= settings.patience):
            try:
                row = self._epoch(state.epoch, state)
            except DivergedError:
                # Continuing the checkpoint would diverge again, and other options could not use it.
                if folder:
                    drop_checkpoint(folder)
                raise
            state.epoch += 1
            if settings.validation:
                row["validation"] = self._validate()
                if settings.patience:
                    self._remember(state, row["validation"])
            state.log.append(row)
            if folder:
                self._capture(state)
                write_checkpoint(folder, fingerprint, state)
            if progress:
                progress(row | {"epochs": float(self._epochs)})
        if state.best:
            self.network.load_state_dict(state.best)
        return state.log

    def _epoch(self, number: int, state: TrainingState) -> LogRow:
        noise = np.random.default_rng([self.seed, number, 1])
        warm = min(1.0, (number + 1) / (self.settings.kl_warmup + 1))
        sums: dict[str, float] = {}
        for batch in self._stream.epoch(number):
            rate = self._rate(state.steps)
            for group in self._optimiser.param_groups:
                group["lr"] = rate
            drawn = noise.standard_normal((len(batch.x), self.settings.latent), dtype=np.float32)
            terms = self._terms(batch, torch.from_numpy(drawn).to(self.device))
            loss = terms.total(self.settings.loss_weights, warm)
            gradients, penalty = penalised_gradients(loss, self._parameters, self.settings.loss_weights)
            seen = {
                "loss": float(loss.detach())
                + self.settings.lambda_sparse * penalty.l1
                + self.settings.lambda_binary * penalty.quantisation,
                "reconstruction": float(terms.reconstruction.detach()),
                "kl": float(terms.kl.detach()),
                "classification": float(terms.classification.detach()),
                "gradient_l1": penalty.l1,
                "quantisation": penalty.quantisation,
            }
            if not math.isfinite(sum(seen.values())):
                raise self._diverged(number)
            for parameter, gradient in zip(self._parameters, gradients):
                parameter.grad = gradient
            self._optimiser.step()
            state.steps += 1
            for key, value in seen.items():
                sums[key] = sums.get(key, 0.0) + value * len(batch.x)
        # A second derivative can overflow when the loss does not: also check after the last step of an epoch.
        if not all(bool(parameter.isfinite().all()) for parameter in self._parameters):
            raise self._diverged(number)
        means = {key: value / self._stream.patches for key, value in sums.items()}
        return {"epoch": float(number + 1), "learning_rate": self._rate(state.steps - 1)} | means

    def _diverged(self, number: int) -> DivergedError:
        return DivergedError(
            f"training diverged in epoch {number + 1}: the loss or the weights are not finite",
            "lower learning_rate or set clip"
            if self.settings.standardise
            else "set standardise = true, or lower learning_rate",
        )

    def _rate(self, step: int) -> float:
        if self.settings.schedule == "constant":
            return self.settings.learning_rate
        done = step / max(1, self._stream.steps * self._epochs)
        return self.settings.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    def _terms(self, batch: Batch, noise: Tensor | None) -> Terms:
        x = self.inputs(batch.x, torch.float32, self.device)
        site = torch.from_numpy(self.known.sites[batch.slide]).to(self.device)
        label = None
        if self.settings.classifies:
            label = torch.from_numpy(self.known.labels[batch.slide]).to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.amp):
            return cvae_terms(self.network, x, site, label, noise)

    def _validate(self) -> float:
        """Return Eq. 7 over the patches of the held-out patients, with z = mu."""
        total = 0.0
        with torch.no_grad():
            for batch in self._held_out.epoch(0):
                total += float(self._terms(batch, None).total(self.settings.loss_weights)) * len(batch.x)
        return total / max(1, self._held_out.patches)

    def _remember(self, state: TrainingState, loss: float) -> None:
        if loss < state.best_loss:
            state.best_loss, state.waited = loss, 0
            state.best = {name: p.detach().clone() for name, p in self.network.named_parameters()}
        else:
            state.waited += 1

    def _capture(self, state: TrainingState) -> None:
        state.weights = dict(self.network.named_parameters())
        adam = [self._optimiser.state[p] for p in self._parameters]
        state.first = {name: s["exp_avg"] for name, s in zip(self._names, adam)}
        state.second = {name: s["exp_avg_sq"] for name, s in zip(self._names, adam)}

    def _restore(self, state: TrainingState) -> None:
        self.network.load_state_dict(state.weights)
        for name, parameter in zip(self._names, self._parameters):
            self._optimiser.state[parameter] = {
                "step": torch.tensor(float(state.steps)),
                "exp_avg": state.first[name].to(self.device),
                "exp_avg_sq": state.second[name].to(self.device),
            }
