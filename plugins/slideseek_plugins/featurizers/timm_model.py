"""Any image network of timm with weights from a file, a folder or a pinned commit of the model hub."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, cast, get_args

import torch
from torch import Tensor, nn

from slideseek.errors import SlideseekError, UsageError
from slideseek.featurizer_card import FeaturizerCard
from slideseek.types import Float32, UInt8
from slideseek_plugins.featurizers.extras import require_module
from slideseek_plugins.featurizers.pixels import Filter, Preparation, check_images
from slideseek_plugins.featurizers.run_options import Device, check_run_options
from slideseek_plugins.featurizers.state_dicts import read_state
from slideseek_plugins.featurizers.timm_import import import_timm
from slideseek_plugins.featurizers.torch_batches import choose_device, place, run
from slideseek_plugins.featurizers.weight_files import file_sha256

REVISION = 1
"""Of the preprocessing and the pooling: raise it when the features of the same weights change."""

HUB = "hf-hub:"
FOLDER_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
LIMIT = 20_000_000_000
"""Bytes: the largest pathology networks have a few billion parameters."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A network with the preprocessing its configuration asks for."""

    network: nn.Module
    prepare: Preparation
    width: int


@dataclass
class TimmModel:
    """Describe a patch by the pooled features of a network of timm.

    model: the name of the architecture (`vit_small_patch16_224`), or `hf-hub:owner/name` for a model of the hub;
    empty when `weights` is a folder. weights: a `.pth` or `.safetensors` file for that architecture, or a folder
    with the `config.json` and the weights of a hub model. revision: the commit of the hub model, 40 hexadecimal
    digits, since a branch may move. batch: images a pass on a GPU. device: where the network runs.

    Side, mean, deviation and interpolation come from the model's own configuration; the patch is seen whole (no
    centre crop).
    """

    model: str = ""
    weights: Path | None = None
    revision: str = ""
    batch: int = field(default=16, metadata={"affects_result": False})
    device: Device = field(default="auto", metadata={"affects_result": False})
    loaded_: Loaded | None = field(default=None, init=False, repr=False, compare=False)
    sha256_: str = field(default="", init=False, repr=False, compare=False)

    name: ClassVar[str] = "timm"

    def __post_init__(self) -> None:
        if self.revision and not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise ValueError(f"revision: a commit of 40 hexadecimal digits, not {self.revision!r}")
        if self.model.startswith(HUB) and not re.fullmatch(r"[\w.-]+/[\w.-]+", self.model.removeprefix(HUB)):
            raise ValueError(f"model: 'hf-hub:owner/name', not {self.model!r}")
        check_run_options(self.batch, self.device)

    @property
    def width(self) -> int:
        """Length of one feature vector; the network is loaded to find out."""
        return self._load().width

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, width)."""
        check_images(images)
        loaded = self._load()
        return run(loaded.network, images, loaded.prepare, loaded.width, choose_device(self.device), self.batch)

    def fingerprint(self) -> str:
        """Name the content of the weights, or the commit of the hub model, and the revision of the preprocessing."""
        if self.weights is None and self.model.startswith(HUB):
            self._check_hub()
            return f"{self.name} r{REVISION} {self.model}@{self.revision}"
        if not self.sha256_:
            file, config = self._files()
            self.sha256_ = " ".join(file_sha256(path) for path in (file, config) if path is not None)
        return f"{self.name} r{REVISION} {self.sha256_}"

    def card(self) -> FeaturizerCard:
        """Say what the featurizer expects and whether it could run."""
        width = self.loaded_.width if self.loaded_ else None
        side = self.loaded_.prepare.side if self.loaded_ else 224
        source = f"huggingface.co/{self.model.removeprefix(HUB)}" if self.model.startswith(HUB) else "a file or folder"
        present = find_spec("timm") is not None and self._in_place()
        return FeaturizerCard(width, side, 0.5, "of the model", source, present)

    def _in_place(self) -> bool:
        if self.weights is not None:
            return self.weights.expanduser().exists()
        if not self.model.startswith(HUB) or not self.revision:
            return False
        hub, repository = require_module("huggingface_hub", self.name), self.model.removeprefix(HUB)
        cached = (hub.try_to_load_from_cache(repository, file, revision=self.revision) for file in FOLDER_WEIGHTS)
        return any(isinstance(path, str) for path in cached)

    def _check_hub(self) -> None:
        if not self.revision:
            raise UsageError(
                f"featurizer 'timm': {self.model} is named without a revision",
                "set revision to a commit of its 'Files and versions' page, so that results stay reproducible",
            )

    def _files(self) -> tuple[Path, Path | None]:
        """Return the weights file and, for a hub model, its config.json."""
        if self.weights is None and self.model.startswith(HUB):
            self._check_hub()
            return _from_hub(self.model.removeprefix(HUB), self.revision)
        fix = (
            "set weights to a .pth or .safetensors file for the architecture in model, or to a folder with the "
            "config.json and model.safetensors of a hub model, or use model = 'hf-hub:owner/name' with a revision"
        )
        if self.weights is None or self.weights == Path():
            raise UsageError(f"featurizer 'timm': no weights for model {self.model!r}", fix)
        path = self.weights.expanduser()
        if path.is_dir():
            found = [path / file for file in FOLDER_WEIGHTS if (path / file).is_file()]
            if not found or not (path / "config.json").is_file():
                raise UsageError(f"featurizer 'timm': {path} lacks config.json or {' / '.join(FOLDER_WEIGHTS)}", fix)
            return found[0], path / "config.json"
        if not path.is_file():
            raise UsageError(f"featurizer 'timm': there is no file {path}", fix)
        if not self.model or self.model.startswith(HUB):
            raise UsageError(
                "featurizer 'timm': a weights file needs the name of its architecture in model",
                "set model, for example 'vit_small_patch16_224'",
            )
        return path, None

    def _load(self) -> Loaded:
        if self.loaded_ is None:
            timm = import_timm()
            file, config = self._files()
            network = _create(timm, self.model, file, config)
            prepare = _preparation(timm.data.resolve_model_data_config(network))
            network = place(network.eval(), choose_device(self.device))
            self.loaded_ = Loaded(network, prepare, _width(network, prepare.side))
        return self.loaded_


def _from_hub(repository: str, revision: str) -> tuple[Path, Path]:
    """Return the weights and the configuration of a hub model from the local cache, downloading what is missing."""
    hub = require_module("huggingface_hub", TimmModel.name)
    errors = require_module("huggingface_hub.errors", TimmModel.name)
    try:
        config = Path(hub.hf_hub_download(repository, "config.json", revision=revision))
        try:
            return Path(hub.hf_hub_download(repository, FOLDER_WEIGHTS[0], revision=revision)), config
        except errors.RemoteEntryNotFoundError:
            return Path(hub.hf_hub_download(repository, FOLDER_WEIGHTS[1], revision=revision)), config
    except (OSError, errors.EntryNotFoundError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SlideseekError(
            f"{repository}@{revision[:8]} cannot be had from the hub ({type(error).__name__}: {reason})",
            f"open huggingface.co/{repository} on a connected machine, accept its terms if it has any, download "
            f"config.json and {FOLDER_WEIGHTS[0]} into one folder and set weights to that folder",
        ) from error


def _create(timm: Any, model: str, file: Path, config: Path | None) -> nn.Module:
    """Build the architecture, load every weight strictly, then take the classifier off."""
    source = f"local-dir:{config.parent}" if config else model
    state = read_state(file, LIMIT)
    try:
        classes = _classes(state, _classifiers(timm, model, config))
        overlay = {"source": "", "state_dict": state, "num_classes": classes}
        network = timm.create_model(source, pretrained=True, pretrained_cfg_overlay=overlay, num_classes=classes)
        network.reset_classifier(0)
    except (RuntimeError, KeyError, ValueError, TypeError, json.JSONDecodeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise SlideseekError(
            f"{file.name}: does not fit {model or source} ({' '.join(lines[:2])[:300]})",
            "check that model names the architecture the weights were saved from",
        ) from error
    return cast(nn.Module, network)


def _classifiers(timm: Any, model: str, config: Path | None) -> tuple[str, ...]:
    """Return the names of the classification layers."""
    settings: Mapping[str, Any] = json.loads(config.read_text("utf-8")) if config else {"architecture": model}
    default = timm.models.get_pretrained_cfg(settings["architecture"])
    named = settings.get("pretrained_cfg", {}).get("classifier") or (default.classifier if default else None) or ()
    return (named,) if isinstance(named, str) else tuple(named)


def _classes(state: Mapping[str, Tensor], classifiers: tuple[str, ...]) -> int:
    """Return how many classes the saved head has: the head is loaded too, so that loading can be strict."""
    weights = [state[f"{name}.weight"] for name in classifiers if f"{name}.weight" in state]
    return int(weights[0].shape[0]) if weights else 0


def _preparation(settings: Mapping[str, Any]) -> Preparation:
    channels, height, width = settings["input_size"]
    if channels != 3 or height != width:
        raise SlideseekError(f"the model takes images of {settings['input_size']}", "use one for square RGB images")
    interpolation = settings["interpolation"]
    resample: Filter = interpolation if interpolation in get_args(Filter) else "bicubic"
    return Preparation.unit(height, tuple(settings["mean"]), tuple(settings["std"]), resample)


def _width(network: nn.Module, side: int) -> int:
    device = next(network.parameters()).device
    with torch.inference_mode():
        output = network(torch.zeros(1, 3, side, side, device=device))
    if not isinstance(output, Tensor) or output.ndim != 2:
        raise SlideseekError(
            "the model returns a set of tokens, not one vector",
            "use a model that pools (global_pool in its config.json)",
        )
    return int(output.shape[1])
