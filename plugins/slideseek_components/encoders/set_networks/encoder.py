"""What the encoders with a network over sets share: options, training, codes, files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from slideseek.errors import NotFittedError, SlideseekError
from slideseek.interfaces import Trainable
from slideseek.types import Bag, Code, CodeSpec, Float32, Float64, Int64, Mask
from slideseek_components.encoders.bags import finite_features
from slideseek_components.encoders.deep.device import Device, reproducible, resolve
from slideseek_components.encoders.deep.training_set import Moments, split
from slideseek_components.encoders.model_file import (
    Facts,
    Layout,
    check_positive,
    deciding_options,
    read_model,
    whole_number,
    write_model,
)
from slideseek_components.encoders.projection.options import By
from slideseek_components.encoders.set_networks.classes import Classes
from slideseek_components.encoders.set_networks.network import SetNetwork
from slideseek_components.encoders.set_networks.pooling import SlidePool
from slideseek_components.encoders.set_networks.trainer import Trainer

_ROWS = 1024
MOST_WIDTH = 2**20
"""Widest features of a model file: a file that claims more is refused before a network is made."""
CLIP = 10.0
"""Standardised features are limited to this size: one absurd value must not decide the code of a slide."""


@dataclass(frozen=True)
class Inputs:
    """Standardise features. shift, scale: float64 (width,), of the training patches."""

    shift: Float64
    scale: Float64
    device: torch.device

    def __call__(self, rows: Float32) -> Tensor:
        """Turn float32 (n, width) into the input of the network, float32 (n, width)."""
        x = np.clip((rows - self.shift) / self.scale, -CLIP, CLIP)
        return torch.from_numpy(x.astype(np.float32)).to(self.device)


@dataclass
class SetEncoder(Trainable, ABC):
    """Train a network over sets of patches to classify slides; the code is its last hidden layer.

    by: classes are the labels, the sites, or `both`, each with its own classifier; slides without a class are not
    learnt from. hidden: sizes of the layers that every patch passes; the last is the width of a code. dropout: in
    training. epochs: passes over the training slides, or the most of them with `validation`. validation: share of the
    patients held out to stop early on, 0 for none. patience: stop after this many epochs without a lower loss on them,
    and take the best weights. batch: slides per step. patches: most patches of a slide in a step, drawn again in every
    epoch; codes are made of all patches. learning_rate, weight_decay: Adam. threads: CPU threads for training; the last
    bits of the weights depend on it. device: where to run.
    """

    code_revision: ClassVar[int] = 1

    by: By = "both"
    hidden: tuple[int, ...] = (128, 128)
    dropout: float = 0.25
    epochs: int = 30
    validation: float = 0.0
    patience: int = 5
    batch: int = 8
    patches: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    seed: int = 0
    threads: int = 1
    device: Device = field(default="auto", metadata={"affects_result": False})
    network_: SetNetwork | None = field(init=False, repr=False, compare=False, default=None)
    inputs_: Inputs | None = field(init=False, repr=False, compare=False, default=None)

    name: ClassVar[str]

    def __post_init__(self) -> None:
        least = {"epochs": 1, "patience": 1, "batch": 1, "patches": 1, "seed": 0, "threads": 1, "weight_decay": 0}
        for option, bound in least.items():
            if not getattr(self, option) >= bound:
                raise ValueError(f"{option}: at least {bound}, not {getattr(self, option)}")
        self.hidden = tuple(self.hidden)
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"hidden: one or more sizes of at least 1, not {self.hidden!r}")
        for option in ("dropout", "validation"):
            if not 0 <= getattr(self, option) < 1:
                raise ValueError(f"{option}: at least 0 and below 1, not {getattr(self, option)}")
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate: between 0 and 1, not {self.learning_rate}")
        for option, allowed in (("by", By), ("device", Device)):
            if getattr(self, option) not in get_args(allowed):
                raise ValueError(f"{option}: one of {', '.join(get_args(allowed))}, not {getattr(self, option)!r}")

    @abstractmethod
    def _network(self, width: int, classes: Sequence[int]) -> SetNetwork:
        """Return an untrained network; without classes, one that only encodes."""

    def spec(self, width: int) -> CodeSpec:
        """Return one row of `hidden[-1]` floats."""
        return CodeSpec("float", self.hidden[-1])

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Train the network on slides with classes; groups: patients, which a held-out part never shares."""
        if not len(bags) == len(labels) == len(groups):
            raise ValueError(f"{len(bags)} bags, {len(labels)} labels and {len(groups)} groups: give one per slide")
        held_out = split(groups, self.validation, self.seed)
        moments, sites = Moments(), [""] * len(bags)
        counts, width = np.zeros(len(bags), dtype=np.int64), 0
        for i in range(len(bags)):
            bag = bags[i]
            counts[i], sites[i] = len(bag), bag.site
            if len(bag) == 0:
                continue
            features = finite_features(bag, width or None)
            width = bag.width
            for start in range(0, 0 if held_out[i] else len(features), _ROWS):
                moments.add(features[start : start + _ROWS].astype(np.float64))
        if counts[~held_out].sum() == 0:
            raise SlideseekError(
                f"{self.name} cannot be fitted: no training slide has patches", "add slides with patches"
            )
        used = counts > 0
        classes = Classes.of(
            [label if here else "" for label, here in zip(labels, used)],
            [site if here else "" for site, here in zip(sites, used)],
            self.by,
            self.name,
        )
        spread = np.sqrt(moments.m2 / moments.count)
        device = resolve(self.device)
        inputs = Inputs(moments.mean, np.where(spread > 0, spread, 1.0), device)
        self.network_, self.inputs_ = self._trained(bags, counts, classes, held_out, inputs), inputs

    def _trained(
        self, bags: Sequence[Bag], counts: Int64, classes: Classes, held_out: Mask, inputs: Inputs
    ) -> SetNetwork:
        known, device = classes.known(), inputs.device
        learn, stop = known[~held_out[known]], known[held_out[known]]
        if not len(learn):
            raise SlideseekError(f"{self.name}: all slides with a class are held out", "set validation = 0")
        # The caller's random numbers go on as they were; those of MPS cannot be put aside.
        aside = [torch.cuda.current_device()] if device.type == "cuda" else []
        with reproducible(self.threads), torch.random.fork_rng(aside):
            torch.manual_seed(self.seed)
            network = self._network(len(inputs.shift), classes.counts).to(device)
            Trainer(
                network,
                bags,
                counts,
                classes,
                learn,
                stop,
                inputs,
                self.epochs,
                self.patience,
                self.batch,
                self.patches,
                self.learning_rate,
                self.weight_decay,
                self.seed,
            ).run()
        return network

    def encode(self, bag: Bag) -> Code:
        """Return the last hidden layer as float32 (1, hidden[-1]), with the same bits for any patch order."""
        if self.network_ is None or self.inputs_ is None:
            raise NotFittedError(self.name)
        features = finite_features(bag, len(self.inputs_.shift))
        with reproducible(1), torch.no_grad():
            row = self.network_.embed(SlidePool(features, self.inputs_)).cpu().numpy()
        return Code(bag.slide_id, row.astype(np.float32, copy=False))

    def save(self, folder: Path) -> None:
        """Write what encodes into the existing empty `folder`; the classifiers are not kept."""
        if self.network_ is None or self.inputs_ is None:
            raise NotFittedError(self.name)
        kept = self._network(len(self.inputs_.shift), ()).state_dict()
        tensors = {name: value.cpu().numpy() for name, value in self.network_.state_dict().items() if name in kept}
        tensors |= {"shift": self.inputs_.shift, "scale": self.inputs_.scale}
        write_model(folder, self.name, deciding_options(self), {"width": len(self.inputs_.shift)}, tensors)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        facts, tensors = read_model(folder, self.name, deciding_options(self), self._layout)
        check_positive(folder, tensors, ["scale"])
        device = resolve(self.device)
        network = self._network(facts["width"], ())
        network.load_state_dict({name: torch.from_numpy(tensors[name]) for name in network.state_dict()})
        self.inputs_ = Inputs(tensors["shift"], tensors["scale"], device)
        self.network_ = network.to(device).eval()

    def _layout(self, facts: Facts) -> Layout:
        width = whole_number(facts, "width")
        if width > MOST_WIDTH:
            raise ValueError(f"width is {width}, at most {MOST_WIDTH}")
        with torch.device("meta"):
            state = self._network(width, ()).state_dict()
        layout = {name: (tuple(value.shape), "float32") for name, value in state.items()}
        return layout | {"shift": ((width,), "float64"), "scale": ((width,), "float64")}
