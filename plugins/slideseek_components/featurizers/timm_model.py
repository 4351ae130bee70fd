"""Any timm image network with weights from a file, a folder or a pinned commit of the model hub."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from slideseek.digests import sha256_file
from slideseek.errors import UsageError
from slideseek.interfaces import Described, Fingerprinted
from slideseek.options import ADDED_LATER
from slideseek.types import FeaturizerCard, Float32, UInt8
from slideseek_components.featurizers.exported_networks import Source, open_exported
from slideseek_components.featurizers.hub_files import CONFIG, FOLDER_WEIGHTS, cached, fetch, in_folder
from slideseek_components.featurizers.network_runtimes import Passes, run_each
from slideseek_components.featurizers.pixels import check_images
from slideseek_components.featurizers.presets import PRESETS, Layer, Pool, Preset, PresetName, Slot
from slideseek_components.featurizers.run_options import (
    AnyPrecision,
    Backend,
    Device,
    Precision,
    check_run_options,
    choose_backend,
)

if TYPE_CHECKING:
    from slideseek_components.featurizers.timm_network import Loaded, Recipe

REVISION = 1
"""Revision of the preprocessing and the pooling: increase it when the features of the same weights change."""

HUB = "hf-hub:"

SHORT_FORMATS = {"bfloat16": ("torch", "openvino"), "float16": ("torch",)}
LAYERS: dict[Slot, tuple[Layer, ...]] = {"mlp": ("mlp", "swiglu-packed", "swiglu"), "act": ("gelu", "silu")}


@dataclass
class TimmModel(Described, Fingerprinted):
    """Describe a patch by the pooled features of a timm network.

    model: the name of the architecture (`vit_small_patch16_224`), or `hf-hub:owner/name` for a model on the hub;
    empty if `weights` is a folder. weights: a `.pth` or `.safetensors` file for that architecture, or a folder
    with the `config.json` and the weights of a hub model. revision: the commit of the hub model, 40 hexadecimal
    digits, since a branch may move. batch: images per pass on a GPU. device: where the network runs.
    backend: what runs it on a CPU: `torch`, or `onnxruntime` and `openvino`, often faster; their features are those
    of torch to 1e-4 (it is checked) and count as the same; `auto` takes the fastest that is installed. precision:
    `bfloat16` with `openvino` or `torch`, `float16` with `torch`; features are others, so results are computed again.

    preset: a published network by name: `slideseek featurizers` lists them with licences. Its card sets architecture,
    normalisation, resizing and pooling; add `weights` (the file from the hub, or its folder) or a `revision`.

    pool: `model` as the network does (a preset: as its card says), `cls` the class token, `cls+mean` it joined with
    the mean patch token. layers: layers that a config.json cannot name, `{ mlp = "swiglu-packed", act = "silu" }`.
    crop: two sides, `[256, 224]`: resize to the first, use the centre of the second. off_card: allow a preset with
    another pool, layers or crop than on its card.

    Without preset and crop, side, mean, deviation and interpolation come from the model's own configuration, and the
    whole patch is used.
    """

    code_revision: ClassVar[int] = 1

    model: str = ""
    weights: Path | None = field(default=None, metadata={"affects_result": False})  # its content does: fingerprint()
    revision: str = ""
    batch: int = field(default=16, metadata={"affects_result": False})
    device: Device = field(default="auto", metadata={"affects_result": False})
    backend: Backend = field(default="torch", metadata={"affects_result": False})
    precision: AnyPrecision = field(default="float32", metadata=ADDED_LATER)
    preset: PresetName = field(default="", metadata=ADDED_LATER)
    pool: Pool = field(default="model", metadata=ADDED_LATER)
    layers: dict[Slot, Layer] | None = field(default=None, metadata=ADDED_LATER)
    crop: tuple[int, int] | None = field(default=None, metadata=ADDED_LATER)
    off_card: bool = field(default=False, metadata={"affects_result": False})  # only a permission
    exported_: Passes | None = field(default=None, init=False, repr=False, compare=False)
    loaded_: Loaded | None = field(default=None, init=False, repr=False, compare=False)
    sha256_: str = field(default="", init=False, repr=False, compare=False)

    name: ClassVar[str] = "timm"

    def __post_init__(self) -> None:
        if self.revision and not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise ValueError(f"revision: a commit of 40 hexadecimal digits, not {self.revision!r}")
        if self.model.startswith(HUB) and not re.fullmatch(r"[\w.-]+/[\w.-]+", self.model.removeprefix(HUB)):
            raise ValueError(f"model: 'hf-hub:owner/name', not {self.model!r}")
        check_run_options(self.batch, self.device, self.backend, self.precision, SHORT_FORMATS)
        for slot, layer in (self.layers or {}).items():
            if layer not in LAYERS.get(slot, ()):
                known = "; ".join(f"{slot}: {', '.join(names)}" for slot, names in LAYERS.items())
                raise ValueError(f"layers: {slot} = {layer!r} is unknown; {known}")
        if self.crop is not None and not self.crop[0] >= self.crop[1] >= 1:
            raise ValueError(f"crop: the side to resize to, then a side of at most that, not {list(self.crop)}")
        if self.preset:
            if self.preset not in PRESETS:
                raise ValueError(f"preset: one of {', '.join(PRESETS)}, not {self.preset!r}")
            self._check_card(PRESETS[self.preset])

    def _check_card(self, card: Preset) -> None:
        """Refuse what the card of a preset does not say, unless it was asked for."""
        if self.model:
            raise ValueError(f"model: preset {self.preset!r} sets the architecture; leave model empty")
        asked = {"pool": self.pool, "layers": self.layers or {}, "crop": self.crop}
        said = {"pool": card.pool, "layers": card.layers, "crop": (card.resize, card.side)}
        unset: dict[str, object] = {"pool": "model", "layers": {}, "crop": None}
        for name, value in asked.items():
            if value != unset[name] and value != said[name] and not self.off_card:
                raise ValueError(
                    f"{name}: the card of {card.hub} says {said[name]!r}, not {value!r}; remove it, or set off_card = "
                    "true for features that are not comparable to others' of this model"
                )

    @property
    def width(self) -> int:
        """Length of one feature vector; the network is loaded to determine it."""
        return self._load().width

    @property
    def hub(self) -> str:
        """The repository on the hub, empty if the model is not from there."""
        return PRESETS[self.preset].hub if self.preset else self.model.removeprefix(HUB) * self.model.startswith(HUB)

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, width)."""
        check_images(images)
        loaded, runtime = self._load(), choose_backend(self.backend, self.device)
        if runtime != "torch":
            if self.exported_ is None:
                short: Precision = (
                    "bfloat16" if self.precision == "bfloat16" else "float32"
                )  # float16 runs with torch only
                self.exported_ = open_exported(self._source(loaded), runtime, short)
            return run_each(self.exported_, images, loaded.prepare, loaded.width)
        from slideseek_components.featurizers.torch_batches import choose_device, run

        return run(loaded.network, images, loaded.prepare, loaded.width, choose_device(self.device), self.batch)

    def fingerprint(self) -> str:
        """Return the digest of the weights, or the commit of the hub model, and the revision of the preprocessing.

        The facts of a preset are part of it, and torch if it computes in a short format: OpenVINO's differs.
        """
        made = [f"{self.name} r{REVISION}", self._weights_identity()]
        if self.preset:
            made.append(f"{self.preset} {PRESETS[self.preset].digest()}")
        return " ".join([*made, *(["torch"] if self._reduced() else [])])

    def _weights_identity(self) -> str:
        if self.weights is None and self.hub:
            self._check_hub()
            return f"{HUB}{self.hub}@{self.revision}"
        if not self.sha256_:
            file, config = self._files()
            self.sha256_ = " ".join(sha256_file(path) for path in (file, config) if path is not None)
        return self.sha256_

    def _reduced(self) -> Literal["", "bfloat16", "float16"]:
        return "" if self.precision == "float32" or self.backend != "torch" else self.precision

    def card(self) -> FeaturizerCard:
        """Return what the featurizer expects and whether it can run."""
        width = self.loaded_.width if self.loaded_ else None
        source = f"huggingface.co/{self.hub}" if self.hub else "a file or folder"
        present = find_spec("timm") is not None and self._in_place()
        if not self.preset:
            side = self.loaded_.prepare.side if self.loaded_ else 224
            return FeaturizerCard(width, side, 0.5, "of the model", source, present)
        facts = PRESETS[self.preset]
        source += ", terms to accept" if facts.gated else ""
        source += f"; not loadable: {facts.remote}" if facts.remote else ""
        known = None if self.off_card else facts.width
        return FeaturizerCard(
            width or known, facts.tile, facts.mpp, facts.licence, source, present and not facts.remote
        )

    def _in_place(self) -> bool:
        if self.weights is not None:
            return self.weights.expanduser().exists()
        return bool(self.hub and self.revision) and cached(self.hub, self.revision, self._names())

    def _names(self) -> tuple[str, ...]:
        """Return the names that the weights may have in a folder or on the hub."""
        return PRESETS[self.preset].files if self.preset else FOLDER_WEIGHTS

    def _check_hub(self) -> None:
        if not self.revision:
            raise UsageError(
                f"featurizer 'timm': {self.preset or self.model} is given without a revision",
                f"set revision to a commit from the 'Files and versions' page of huggingface.co/{self.hub}, to keep "
                f"results reproducible, or weights to a folder with its {' or '.join(self._names())}",
            )

    def _files(self) -> tuple[Path, Path | None]:
        """Return the weights file and, for a hub model without preset, its config.json."""
        facts, files = PRESETS[self.preset] if self.preset else None, self._names()
        if facts is not None and facts.remote:
            raise UsageError(
                f"featurizer 'timm': preset {self.preset!r} cannot be loaded: {facts.remote}",
                "compute its features with another tool and use slideseek import",
            )
        if self.weights is None and self.hub:
            self._check_hub()
            return fetch(self.hub, self.revision, files, facts is None, facts.gated if facts else None)
        fix = (
            "set weights to a .pth or .safetensors file for the architecture in model, or to a folder with the "
            "config.json and model.safetensors of a hub model, or use model = 'hf-hub:owner/name' with a revision"
        )
        if facts is not None:
            fix = f"put {' or '.join(files)} from huggingface.co/{facts.hub} there"
        if self.weights is None or self.weights == Path():
            raise UsageError(f"featurizer 'timm': no weights for model {self.model!r}", fix)
        path = self.weights.expanduser()
        if path.is_dir():
            found, config = in_folder(path, files), in_folder(path, [CONFIG])
            if found is None or (config is None and facts is None):
                wanted = " / ".join(files)
                wanted = wanted if facts is not None else f"{CONFIG} or {wanted}"
                raise UsageError(f"featurizer 'timm': {path} has no {wanted}", fix)
            return found, None if facts is not None else config
        if not path.is_file():
            raise UsageError(f"featurizer 'timm': {path} does not exist", fix)
        if facts is None and (not self.model or self.model.startswith(HUB)):
            raise UsageError(
                "featurizer 'timm': a weights file needs the name of its architecture in model",
                "set model, for example 'vit_small_patch16_224'",
            )
        return path, None

    def _recipe(self) -> Recipe:
        from slideseek_components.featurizers.timm_network import Recipe

        facts = PRESETS[self.preset] if self.preset else None
        pool = facts.pool if facts is not None and self.pool == "model" else self.pool
        layers = facts.layers if facts is not None and self.layers is None else self.layers or {}
        return Recipe(pool, layers, self.crop, self._reduced(), facts)

    def _source(self, loaded: Loaded) -> Source:
        identity = f"{self.fingerprint()} {self.model} timm {version('timm')}"  # the code of the network is timm's
        changed = {"pool": self.pool, "layers": self.layers, "crop": self.crop}
        if changed != {"pool": "model", "layers": None, "crop": None}:
            identity += f" {sorted(changed.items())}"
        return Source(self.name, identity, loaded.prepare.side, lambda: loaded.network)

    def _load(self) -> Loaded:
        if self.loaded_ is None:
            files = self._files()  # before torch is imported: what is missing is reported at once
            from slideseek_components.featurizers.timm_network import load_network
            from slideseek_components.featurizers.torch_batches import choose_device

            self.loaded_ = load_network(self.model, *files, choose_device(self.device), self._recipe())
        return self.loaded_
