"""Build a timm network and load weights into it, strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from slideseek.errors import SlideseekError, one_line
from slideseek_components.featurizers.conch_network import CONCH_PATCH, Conch, with_positions
from slideseek_components.featurizers.dinov2_names import timm_names
from slideseek_components.featurizers.pixels import CardPreparation, Filter, Preparation
from slideseek_components.featurizers.presets import Layer, Pool, Preset, Slot
from slideseek_components.featurizers.state_dicts import fill, read_state
from slideseek_components.featurizers.timm_import import import_timm
from slideseek_components.featurizers.token_pooling import Pooled, Reduced
from slideseek_components.featurizers.torch_batches import place

LIMIT = 20_000_000_000
"""Most bytes: the largest pathology networks have a few billion parameters."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is asked for beyond a model's own configuration.

    crop: the side to resize to and the side of the centre that is used, None for the whole patch. preset: the facts
    of a published model; the other values then are its own unless others were asked for.
    """

    pool: Pool = "model"
    layers: Mapping[Slot, Layer] = field(default_factory=dict)
    crop: tuple[int, int] | None = None
    reduced: Literal["", "bfloat16", "float16"] = ""
    preset: Preset | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A network with the preprocessing from its configuration."""

    network: nn.Module
    prepare: Preparation | CardPreparation
    width: int


def load_network(
    model: str, file: Path, config: Path | None, device: torch.device, recipe: Recipe | None = None
) -> Loaded:
    """Return the network of a weights file, on the device and in evaluation mode.

    model: the architecture, unless `config` (the config.json of a hub model, next to the file) or the preset of the
    recipe names it.
    """
    timm, recipe = import_timm(), recipe or Recipe()
    if recipe.preset is not None:
        network = _published(timm, recipe.preset, recipe.layers, file)
        prepare: Preparation | CardPreparation = _card_preparation(recipe.preset, recipe.crop)
    else:
        network = _create(timm, model, file, config, _arguments(timm, recipe.layers))
        prepare = _preparation(timm.data.resolve_model_data_config(network), recipe.crop)
    placed = place(network.eval(), device)
    if recipe.pool != "model":
        placed = Pooled(placed, recipe.pool).eval()
    if recipe.reduced:
        placed = Reduced(placed, recipe.reduced).eval()
    return Loaded(placed, prepare, _width(placed, prepare.side, device))


def _arguments(timm: Any, layers: Mapping[Slot, Layer]) -> dict[str, Any]:
    """Return timm's arguments for layers; timm itself takes no names for them."""
    classes = {
        "mlp": timm.layers.Mlp,
        "swiglu-packed": timm.layers.SwiGLUPacked,
        "swiglu": timm.layers.SwiGLU,
        "gelu": nn.GELU,
        "silu": nn.SiLU,
    }
    return {f"{slot}_layer": classes[name] for slot, name in layers.items()}


def _published(timm: Any, preset: Preset, layers: Mapping[Slot, Layer], file: Path) -> nn.Module:
    """Build the network of a preset with every tensor of its file: none may be missing, left over or resampled."""
    state = read_state(file, LIMIT)
    if preset.names == "transformers":
        state = timm_names(state, file.name)
    elif preset.names == "conch":
        state = with_positions(state, preset.side // CONCH_PATCH)
    arguments = {**preset.args, **_arguments(timm, layers)}

    def build() -> nn.Module:
        network = timm.create_model(preset.architecture, pretrained=False, num_classes=0, **arguments)
        return Conch(network, preset.width) if preset.names == "conch" else cast(nn.Module, network)

    return fill(build, state, f"{preset.hub}: {file.name}")


def _card_preparation(preset: Preset, crop: tuple[int, int] | None) -> CardPreparation:
    resize, side = crop or (preset.resize, preset.side)
    return CardPreparation(side, resize, preset.mean, preset.std, preset.resample)


def _create(timm: Any, model: str, file: Path, config: Path | None, layers: Mapping[str, Any]) -> nn.Module:
    """Build the architecture, load every weight strictly, then remove the classifier."""
    source = f"local-dir:{config.parent}" if config else model
    state = read_state(file, LIMIT)
    try:
        classes = _classes(state, _classifiers(timm, model, config))
        overlay = {"source": "", "state_dict": state, "num_classes": classes}
        network = timm.create_model(
            source, pretrained=True, pretrained_cfg_overlay=overlay, num_classes=classes, **layers
        )
        network.reset_classifier(0)
    except (RuntimeError, KeyError, ValueError, TypeError, json.JSONDecodeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise SlideseekError(
            f"{file.name}: does not fit {model or source} ({' '.join(lines[:2])[:300]})",
            "check that model names the architecture the weights were saved from, and layers those it was built with",
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


def _preparation(settings: Mapping[str, Any], crop: tuple[int, int] | None) -> Preparation | CardPreparation:
    channels, height, width = settings["input_size"]
    if channels != 3 or height != width:
        raise SlideseekError(f"the model takes images of {settings['input_size']}", "use one for square RGB images")
    if settings["interpolation"] not in get_args(Filter):
        raise SlideseekError(
            f"the model uses interpolation {settings['interpolation']!r}",
            f"set it to one of {', '.join(get_args(Filter))} in its config.json",
        )
    mean, std, resample = tuple(settings["mean"]), tuple(settings["std"]), settings["interpolation"]
    if crop is None:
        return Preparation.unit(height, mean, std, resample)
    return CardPreparation(crop[1], crop[0], mean, std, resample)


def _width(network: nn.Module, side: int, device: torch.device) -> int:
    try:
        with torch.inference_mode():
            output = network(torch.zeros(1, 3, side, side, device=device))
    except (AssertionError, RuntimeError) as error:
        raise SlideseekError(
            f"the model takes no images of {side} x {side} pixels ({one_line(error)})", "set crop to its input side"
        ) from error
    if not isinstance(output, Tensor) or output.ndim != 2:
        raise SlideseekError(
            "the model returns a set of tokens, not one vector",
            "set pool to 'cls' or 'cls+mean', whichever the model's card says",
        )
    return int(output.shape[1])
