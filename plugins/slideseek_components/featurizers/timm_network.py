"""Fetch a model from the hub, build a timm network and load weights into it, strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from slideseek.errors import SlideseekError
from slideseek_components.featurizers.extras import require_module
from slideseek_components.featurizers.pixels import Filter, Preparation
from slideseek_components.featurizers.state_dicts import read_state
from slideseek_components.featurizers.timm_import import import_timm
from slideseek_components.featurizers.torch_batches import place

FOLDER_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
LIMIT = 20_000_000_000
"""Most bytes: the largest pathology networks have a few billion parameters."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A network with the preprocessing from its configuration."""

    network: nn.Module
    prepare: Preparation
    width: int


def load_network(model: str, file: Path, config: Path | None, device: torch.device) -> Loaded:
    """Return the network of a weights file, on the device and in evaluation mode.

    model: the architecture, unless `config` (the config.json of a hub model, next to the file) names it.
    """
    timm = import_timm()
    network = _create(timm, model, file, config)
    prepare = _preparation(timm.data.resolve_model_data_config(network))
    placed = place(network.eval(), device)
    return Loaded(placed, prepare, _width(placed, prepare.side, device))


def cached(repository: str, revision: str) -> bool:
    """Return whether the weights of a hub model were downloaded before."""
    hub = require_module("huggingface_hub", "timm")
    paths = (hub.try_to_load_from_cache(repository, file, revision=revision) for file in FOLDER_WEIGHTS)
    return any(isinstance(path, str) for path in paths)


def fetch(repository: str, revision: str) -> tuple[Path, Path]:
    """Return the weights and the configuration of a hub model from the local cache, downloading what is missing."""
    hub = require_module("huggingface_hub", "timm")
    errors = require_module("huggingface_hub.errors", "timm")
    try:
        config = Path(hub.hf_hub_download(repository, "config.json", revision=revision))
        try:
            return Path(hub.hf_hub_download(repository, FOLDER_WEIGHTS[0], revision=revision)), config
        except errors.EntryNotFoundError:  # older models have only the pickled form; only tensors are read from it
            return Path(hub.hf_hub_download(repository, FOLDER_WEIGHTS[1], revision=revision)), config
    except (OSError, errors.EntryNotFoundError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SlideseekError(
            f"{repository}@{revision[:8]} cannot be fetched from the hub ({type(error).__name__}: {reason})",
            f"open huggingface.co/{repository} on a connected machine, accept its terms if it has any, download "
            f"config.json and {FOLDER_WEIGHTS[0]} into one folder and set weights to that folder",
        ) from error


def _create(timm: Any, model: str, file: Path, config: Path | None) -> nn.Module:
    """Build the architecture, load every weight strictly, then remove the classifier."""
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
    """Return how many classes the saved head has: the head is also loaded, so loading can be strict."""
    weights = [state[f"{name}.weight"] for name in classifiers if f"{name}.weight" in state]
    return int(weights[0].shape[0]) if weights else 0


def _preparation(settings: Mapping[str, Any]) -> Preparation:
    channels, height, width = settings["input_size"]
    if channels != 3 or height != width:
        raise SlideseekError(f"the model takes images of {settings['input_size']}", "use one for square RGB images")
    if settings["interpolation"] not in get_args(Filter):
        raise SlideseekError(
            f"the model uses interpolation {settings['interpolation']!r}",
            f"set it to one of {', '.join(get_args(Filter))} in its config.json",
        )
    return Preparation.unit(height, tuple(settings["mean"]), tuple(settings["std"]), settings["interpolation"])


def _width(network: nn.Module, side: int, device: torch.device) -> int:
    with torch.inference_mode():
        output = network(torch.zeros(1, 3, side, side, device=device))
    if not isinstance(output, Tensor) or output.ndim != 2:
        raise SlideseekError(
            "the model returns a set of tokens, not one vector",
            "use a model that pools (global_pool in its config.json)",
        )
    return int(output.shape[1])
