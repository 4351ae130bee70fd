"""The resolved options of the deep encoders, and the presets."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

from slideseek_components.encoders.deep.loss import LossWeights
from slideseek_components.encoders.deep.network import Activation, Shape
from slideseek_components.encoders.projection.options import Binarise, By, Kind

Preset: TypeAlias = Literal["paper", "best"]
Schedule: TypeAlias = Literal["constant", "cosine"]
Selection: TypeAlias = Literal["variance", "separation"]
Statistics: TypeAlias = Literal["site", "all"]
Precision: TypeAlias = Literal["float32", "float64"]


@dataclass(frozen=True)
class Settings:
    """Every option with its value. The encoders document their meaning."""

    sites: int = 10
    labels: int = 29
    hidden: tuple[int, ...] = (512, 256, 128)
    latent: int = 50
    activation: Activation = "relu"
    standardise: bool = False
    clip: float = 0.0
    lambda_rec: float = 1.0
    lambda_kl: float = 1.0
    lambda_cls: float = 1.0
    lambda_sparse: float = 0.0
    lambda_binary: float = 0.0
    kl_warmup: int = 0
    epochs: int = 150
    steps: int = 0
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    validation: float = 0.0
    patience: int = 0
    layers: tuple[str, ...] = ()
    keep: int = 0
    selection: Selection = "variance"
    statistics: Statistics = "site"
    centre: bool = False
    scale: bool = False
    projection: Kind = "none"
    by: By = "both"
    shrinkage: float = 0.0
    unprojected: float = -1.0
    dimensions: int = 512
    binarise: Binarise = "hyperplanes"

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not least <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: a number of at least {least}, not {getattr(self, name)}")
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"hidden: one or more sizes of at least 1, not {self.hidden!r}")
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate: between 0 and 1, not {self.learning_rate}")
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation: at least 0 and below 1, not {self.validation}")
        if self.patience and not self.validation:
            raise ValueError("patience: needs validation > 0, the share of patients to stop early on")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        known = Shape(1, 1, 1, self.hidden, 1).layers()
        for layer in self.layers:
            if not any(name == layer or name.startswith(f"{layer}.") for name in known):
                raise ValueError(f"layers: any of {', '.join(known)}, encoder, decoder, not {layer!r}")

    @property
    def loss_weights(self) -> LossWeights:
        """The weights of the five losses."""
        return LossWeights(self.lambda_rec, self.lambda_kl, self.lambda_cls, self.lambda_sparse, self.lambda_binary)

    @property
    def classifies(self) -> bool:
        """Whether training uses labels."""
        return bool(self.labels and self.lambda_cls)

    @property
    def learns_from_gradients(self) -> bool:
        """Whether gradients of training slides are needed: to choose entries, or for their mean or spread."""
        return bool(self.keep or self.centre or self.scale)

    @property
    def by_site(self) -> bool:
        """Whether this is done per site."""
        return self.statistics == "site" and self.learns_from_gradients

    def training_options(self) -> dict[str, Any]:
        """Return the options that affect the trained weights; the others affect only what is read from them."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in CODING}

    def shape(self, width: int) -> Shape:
        """Return the sizes of the network for features of `width`."""
        return Shape(width, self.sites, self.labels, self.hidden, self.latent)

    def coded_layers(self, width: int) -> dict[str, tuple[int, int]]:
        """Return (outputs, inputs) of the layers whose gradients the code may contain, in parameter order."""
        return {
            name: size
            for name, size in self.shape(width).layers().items()
            if not self.layers or any(name == layer or name.startswith(f"{layer}.") for layer in self.layers)
        }

    def coded_entries(self, width: int) -> int:
        """Return how many entries the gradient of those layers has: every weight and every bias."""
        return sum(outputs * (inputs + 1) for outputs, inputs in self.coded_layers(width).values())


PRESETS: dict[Preset, dict[str, Any]] = {
    "paper": {"lambda_sparse": 1e-4, "lambda_binary": 1e-4},
    "best": {
        "sites": 0,
        "labels": 0,
        "hidden": (512, 128),
        "standardise": True,
        "clip": 5.0,
        "lambda_kl": 0.1,
        "epochs": 10,
        "steps": 4000,
        "layers": ("decoder",),
        "centre": True,
        "scale": True,
        "projection": "discriminant",
    },
}


def resolved(preset: Preset, given: dict[str, Any]) -> Settings:
    """Return the settings of `preset`; an option that is given (not None) overrides the preset.

    given: the options an encoder has, None if not set; a preset's other options are ignored. Statistics
    follow the sites: an unconditioned encoder uses those of all slides.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset: one of {', '.join(PRESETS)}, not {preset!r}")
    names = {item.name for item in fields(Settings)}
    explicit = {name: value for name, value in given.items() if value is not None and name in names}
    values = {name: value for name, value in PRESETS[preset].items() if name in given} | explicit
    if values.get("sites") == 0:
        values.setdefault("statistics", "all")
    for name in ("hidden", "layers"):
        if name in values:
            values[name] = tuple(values[name])
    return Settings(**values)


CODING = {"layers", "keep", "selection", "statistics", "centre", "scale"} | {
    *("projection", "by", "shrinkage", "unprojected", "dimensions", "binarise")
}
"""Options that affect what is read from a trained network, not the network."""
_LEAST = {
    "sites": 0,
    "labels": 0,
    "latent": 1,
    "clip": 0,
    "lambda_rec": 0,
    "lambda_kl": 0,
    "lambda_cls": 0,
    "lambda_sparse": 0,
    "lambda_binary": 0,
    "kl_warmup": 0,
    "epochs": 0,
    "steps": 0,
    "batch_size": 1,
    "weight_decay": 0,
    "patience": 0,
    "keep": 0,
    "dimensions": 1,
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "activation": get_args(Activation),
    "schedule": get_args(Schedule),
    "selection": get_args(Selection),
    "statistics": get_args(Statistics),
}
