"""Any timm image network with weights from a file, a folder or a pinned commit of the model hub."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from slideseek.digests import sha256_file
from slideseek.errors import UsageError
from slideseek.interfaces import Described, Fingerprinted
from slideseek.options import ADDED_LATER
from slideseek.types import FeaturizerCard, Float32, UInt8
from slideseek_components.featurizers.exported_networks import Source, open_exported
from slideseek_components.featurizers.network_runtimes import Passes, run_each
from slideseek_components.featurizers.pixels import check_images
from slideseek_components.featurizers.run_options import (
    Backend,
    Device,
    Precision,
    check_run_options,
    choose_backend,
)
from slideseek_components.featurizers.timm_network import FOLDER_WEIGHTS, Loaded, cached, fetch, load_network
from slideseek_components.featurizers.torch_batches import choose_device, run

REVISION = 1
"""Revision of the preprocessing and the pooling: increase it when the features of the same weights change."""

HUB = "hf-hub:"


@dataclass
class TimmModel(Described, Fingerprinted):
    """Describe a patch by the pooled features of a timm network.

    model: the name of the architecture (`vit_small_patch16_224`), or `hf-hub:owner/name` for a model on the hub;
    empty if `weights` is a folder. weights: a `.pth` or `.safetensors` file for that architecture, or a folder
    with the `config.json` and the weights of a hub model. revision: the commit of the hub model, 40 hexadecimal
    digits, since a branch may move. batch: images per pass on a GPU. device: where the network runs.
    backend: what runs it on a CPU: `torch`, or `onnxruntime` and `openvino`, often faster; their features are those
    of torch to 1e-4 (it is checked) and count as the same; `auto` takes the fastest that is installed. precision:
    `bfloat16` with `openvino`; its features are others, so results are computed again.

    Side, mean, deviation and interpolation come from the model's own configuration; the whole patch is used (no
    centre crop).
    """

    code_revision: ClassVar[int] = 1

    model: str = ""
    weights: Path | None = field(default=None, metadata={"affects_result": False})  # its content does: fingerprint()
    revision: str = ""
    batch: int = field(default=16, metadata={"affects_result": False})
    device: Device = field(default="auto", metadata={"affects_result": False})
    backend: Backend = field(default="torch", metadata={"affects_result": False})
    precision: Precision = field(default="float32", metadata=ADDED_LATER)
    exported_: Passes | None = field(default=None, init=False, repr=False, compare=False)
    loaded_: Loaded | None = field(default=None, init=False, repr=False, compare=False)
    sha256_: str = field(default="", init=False, repr=False, compare=False)

    name: ClassVar[str] = "timm"

    def __post_init__(self) -> None:
        if self.revision and not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise ValueError(f"revision: a commit of 40 hexadecimal digits, not {self.revision!r}")
        if self.model.startswith(HUB) and not re.fullmatch(r"[\w.-]+/[\w.-]+", self.model.removeprefix(HUB)):
            raise ValueError(f"model: 'hf-hub:owner/name', not {self.model!r}")
        check_run_options(self.batch, self.device, self.backend, self.precision)

    @property
    def width(self) -> int:
        """Length of one feature vector; the network is loaded to determine it."""
        return self._load().width

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, width)."""
        check_images(images)
        loaded, runtime = self._load(), choose_backend(self.backend, self.device)
        if runtime != "torch":
            if self.exported_ is None:
                self.exported_ = open_exported(self._source(loaded), runtime, self.precision)
            return run_each(self.exported_, images, loaded.prepare, loaded.width)
        return run(loaded.network, images, loaded.prepare, loaded.width, choose_device(self.device), self.batch)

    def fingerprint(self) -> str:
        """Return the digest of the weights, or the commit of the hub model, and the revision of the preprocessing."""
        if self.weights is None and self.model.startswith(HUB):
            self._check_hub()
            return f"{self.name} r{REVISION} {self.model}@{self.revision}"
        if not self.sha256_:
            file, config = self._files()
            self.sha256_ = " ".join(sha256_file(path) for path in (file, config) if path is not None)
        return f"{self.name} r{REVISION} {self.sha256_}"

    def card(self) -> FeaturizerCard:
        """Return what the featurizer expects and whether it can run."""
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
        return cached(self.model.removeprefix(HUB), self.revision)

    def _check_hub(self) -> None:
        if not self.revision:
            raise UsageError(
                f"featurizer 'timm': {self.model} is given without a revision",
                "set revision to a commit from its 'Files and versions' page, to keep results reproducible",
            )

    def _files(self) -> tuple[Path, Path | None]:
        """Return the weights file and, for a hub model, its config.json."""
        if self.weights is None and self.model.startswith(HUB):
            self._check_hub()
            return fetch(self.model.removeprefix(HUB), self.revision)
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
                raise UsageError(f"featurizer 'timm': {path} has no config.json or {' / '.join(FOLDER_WEIGHTS)}", fix)
            return found[0], path / "config.json"
        if not path.is_file():
            raise UsageError(f"featurizer 'timm': {path} does not exist", fix)
        if not self.model or self.model.startswith(HUB):
            raise UsageError(
                "featurizer 'timm': a weights file needs the name of its architecture in model",
                "set model, for example 'vit_small_patch16_224'",
            )
        return path, None

    def _source(self, loaded: Loaded) -> Source:
        identity = f"{self.fingerprint()} {self.model} timm {version('timm')}"  # the code of the network is timm's
        return Source(self.name, identity, loaded.prepare.side, lambda: loaded.network)

    def _load(self) -> Loaded:
        if self.loaded_ is None:
            self.loaded_ = load_network(self.model, *self._files(), choose_device(self.device))
        return self.loaded_
