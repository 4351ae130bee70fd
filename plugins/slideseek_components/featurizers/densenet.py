"""DenseNet-121 and KimiaNet: the featurizers of Yottixel and later papers. Users provide the weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias, get_args

import torch

from slideseek.digests import sha256_file
from slideseek.interfaces import Described, Fingerprinted, Resizing
from slideseek.types import FeaturizerCard, Float32, UInt8
from slideseek_components.featurizers.densenet_network import WIDTH, DenseNet121, feature_names
from slideseek_components.featurizers.pixels import IMAGENET_MEAN, IMAGENET_STD, Preparation, check_images
from slideseek_components.featurizers.run_options import Device, check_run_options
from slideseek_components.featurizers.state_dicts import fill, read_state
from slideseek_components.featurizers.torch_batches import choose_device, place, run
from slideseek_components.featurizers.weight_files import require_weights

REVISION = 1
"""Revision of the preprocessing and the network: increase it when the features of the same weights change."""

Normalisation: TypeAlias = Literal["imagenet", "unit"]


@dataclass
class DenseNet121Features(Resizing, Described, Fingerprinted):
    """Describe a patch by 1024 features of DenseNet-121, pooled after the last ReLU.

    weights: the ImageNet checkpoint, `.pth` or `.safetensors`. side: patches are resized to it, in pixels; 0
    takes them as they are. normalise: `imagenet` normalises pixels by ImageNet's mean and deviation, `unit` only
    scales them to 0 to 1. batch: images per pass on a GPU. device: where the network runs.
    """

    code_revision: ClassVar[int] = 1

    weights: Path | None = field(default=None, metadata={"affects_result": False})  # its content does: fingerprint()
    side: int = 0
    normalise: Normalisation = "imagenet"
    batch: int = field(default=16, metadata={"affects_result": False})
    device: Device = field(default="auto", metadata={"affects_result": False})
    network_: DenseNet121 | None = field(default=None, init=False, repr=False, compare=False)
    sha256_: str = field(default="", init=False, repr=False, compare=False)

    name: ClassVar[str] = "densenet121"
    last_relu: ClassVar[bool] = True
    licence: ClassVar[str] = "BSD-3-Clause"
    source: ClassVar[str] = "densenet121-a639ec97.pth (ImageNet) from download.pytorch.org/models"

    def __post_init__(self) -> None:
        if self.side and not 32 <= self.side <= 4096:
            raise ValueError(f"side: 0 or 32 to 4096 pixels, not {self.side}")
        if self.normalise not in get_args(Normalisation):
            raise ValueError(f"normalise: one of {', '.join(get_args(Normalisation))}, not {self.normalise!r}")
        check_run_options(self.batch, self.device)

    @property
    def width(self) -> int:
        """Length of one feature vector."""
        return WIDTH

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3), s at least 32, into float32 (n, 1024)."""
        check_images(images)
        if (self.side or images.shape[1]) < 32:
            raise ValueError(f"images: the side must be at least 32 pixels, not {images.shape[1]}")
        device = choose_device(self.device)
        imagenet = self.normalise == "imagenet"
        mean, std = (IMAGENET_MEAN, IMAGENET_STD) if imagenet else ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
        prepare = Preparation.unit(self.side, mean, std)
        return run(self._network(device), images, prepare, self.width, device, self.batch)

    def fingerprint(self) -> str:
        """Return the digest of the weights file and the revision of the preprocessing."""
        if not self.sha256_:
            self.sha256_ = sha256_file(self._path())
        return f"{self.name} r{REVISION} {self.sha256_}"

    def card(self) -> FeaturizerCard:
        """Return what the featurizer expects and whether its weights are in place."""
        present = self.weights is not None and self.weights.expanduser().is_file()
        return FeaturizerCard(WIDTH, self.side or 1000, 0.5, self.licence, self.source, present)

    def _path(self) -> Path:
        return require_weights(self.weights, self.name, self.source)

    def _network(self, device: torch.device) -> DenseNet121:
        if self.network_ is None:
            path = self._path()
            state = feature_names(read_state(path, limit=400_000_000), path.name)
            network = fill(lambda: DenseNet121(self.last_relu), state, path.name).fold()
            self.network_ = place(network, device)
        return self.network_


@dataclass
class KimiaNet(DenseNet121Features):
    """Describe a patch by 1024 features of KimiaNet: DenseNet-121 trained on TCGA, pooled before the last ReLU.

    Riasatian et al., "Fine-tuning and training of densenet for histopathology image representation using TCGA
    diagnostic slides", Medical Image Analysis 70, 2021. Meant for patches of 1000 px at 20x.

    weights: its PyTorch checkpoint, `.pth` or `.safetensors`. side: patches are resized to it, in pixels; 0
    takes them as they are. normalise: `imagenet` (as in training) normalises pixels by ImageNet's mean and deviation,
    `unit` only scales them to 0 to 1. batch: images per pass on a GPU. device: where the network runs.
    """

    name: ClassVar[str] = "kimianet"
    last_relu: ClassVar[bool] = False
    licence: ClassVar[str] = "End User Agreement of its authors"
    source: ClassVar[str] = "KimiaNetPyTorchWeights.pth from github.com/KimiaLabMayo/KimiaNet (read its agreement.pdf)"
