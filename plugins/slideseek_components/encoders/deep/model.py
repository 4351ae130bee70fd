"""What a deep encoder learnt, and how it is stored on disk."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from slideseek.errors import DamagedError, SlideseekError
from slideseek.types import Bag
from slideseek_components.encoders.deep.kept_entries import KeptEntries
from slideseek_components.encoders.deep.network import CVAE, Inputs
from slideseek_components.encoders.deep.settings import Settings
from slideseek_components.encoders.model_file import (
    Facts,
    Layout,
    Tensors,
    check_positive,
    read_model,
    sorted_names,
    whole_number,
    write_model,
)

_WIDEST = 2**20
_KEPT = {"chosen": "int64", "centre": "float32", "scale": "float32"}
"""The arrays of `KeptEntries` and their types on disk."""


@dataclass(frozen=True)
class Model:
    """The trained network (float32, on the CPU), its inputs, the sites it knows and the entries its codes keep.

    site_names: sorted; empty if sites are not used. kept: by site, or under "" for all slides.
    """

    network: CVAE
    inputs: Inputs
    site_names: tuple[str, ...]
    kept: dict[str, KeptEntries]

    @property
    def width(self) -> int:
        """Width of the features the network was trained on."""
        return self.network.shape.width

    def copy_network(self) -> CVAE:
        """Return a copy to move to another device or type."""
        return copy.deepcopy(self.network)

    def site_number(self, bag: Bag, name: str) -> int:
        """Return the number of the site of `bag`, 0 if sites are not used."""
        if not self.site_names:
            return 0
        if not bag.site:
            raise SlideseekError(
                f"slide {bag.slide_id!r} has no site, and {name} was fitted by site ({', '.join(self.site_names)})",
                "set its site",
            )
        if bag.site not in self.site_names:
            raise SlideseekError(
                f"slide {bag.slide_id!r} is of site {bag.site!r}, {name} was fitted on {', '.join(self.site_names)}",
                "correct the site, or fit again with slides of that site",
            )
        return self.site_names.index(bag.site)

    def write(self, folder: Path, name: str, options: Mapping[str, Any]) -> None:
        """Write the model into the existing empty `folder`."""
        spaces = sorted(self.kept)
        facts: Facts = {"width": self.width, "sites": list(self.site_names), "spaces": spaces}
        tensors: Tensors = {f"network.{key}": value.numpy() for key, value in self.network.state_dict().items()}
        tensors |= {"inputs.shift": self.inputs.shift, "inputs.scale": self.inputs.scale}
        for i, space in enumerate(spaces):
            for part in _KEPT:
                value = getattr(self.kept[space], part)
                if value is not None:
                    tensors[f"{part}.{i}"] = value
        write_model(folder, name, options, facts, tensors)

    @classmethod
    def read(cls, folder: Path, name: str, options: Mapping[str, Any], settings: Settings) -> Model:
        """Read what `write` wrote for an encoder with these settings; every shape is checked first."""
        facts, tensors = read_model(folder, name, options, partial(_layout, settings))
        check_positive(folder, tensors, [key for key in tensors if key == "inputs.scale" or key.startswith("scale.")])
        shape = settings.shape(facts["width"])
        network = CVAE(shape.width, shape.sites, shape.labels, shape.hidden, shape.latent, settings.activation)
        prefix = "network."
        network.load_state_dict(
            {key.removeprefix(prefix): torch.from_numpy(t) for key, t in tensors.items() if key.startswith(prefix)}
        )
        entries = settings.coded_entries(shape.width)
        kept = {}
        for i, space in enumerate(facts["spaces"]):
            own = KeptEntries(*(tensors.get(f"{part}.{i}") for part in _KEPT))
            if own.chosen is not None and not ((own.chosen >= 0) & (own.chosen < entries)).all():
                raise DamagedError(
                    f"the model in {folder} keeps entries that its network does not have", "fit the encoder again"
                )
            kept[space] = own
        inputs = Inputs(tensors["inputs.shift"], tensors["inputs.scale"], settings.clip)
        return cls(network, inputs, tuple(facts["sites"]), kept)


def _layout(settings: Settings, facts: Facts) -> Layout:
    """Return the tensors that a model with these settings and facts has; raise `ValueError` for bad facts."""
    width, sites, spaces = whole_number(facts, "width"), sorted_names(facts, "sites"), sorted_names(facts, "spaces")
    if width > _WIDEST:
        raise ValueError(f"width is {width}")
    if bool(sites) != (settings.sites > 0 or settings.by_site) or 0 < settings.sites < len(sites):
        raise ValueError(f"sites is {sites!r}")
    if spaces != (sites if settings.by_site else [""]):
        raise ValueError(f"spaces is {spaces!r}")
    wanted: dict[str, tuple[tuple[int, ...], str]] = {}
    for layer, (outputs, inputs) in settings.shape(width).layers().items():
        wanted[f"network.{layer}.weight"] = (outputs, inputs), "float32"
        wanted[f"network.{layer}.bias"] = (outputs,), "float32"
    wanted |= {f"inputs.{part}": ((width,), "float64") for part in ("shift", "scale")}
    has = {"chosen": bool(settings.keep), "centre": settings.centre, "scale": settings.scale}
    size = settings.keep or settings.coded_entries(width)
    for i in range(len(spaces)):
        wanted |= {f"{part}.{i}": ((size,), kind) for part, kind in _KEPT.items() if has[part]}
    return wanted
