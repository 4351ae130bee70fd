"""Networks exported to ONNX once and kept in the user's cache, compared with torch before they are used.

A back end computes the same network with other kernels. Its features differ from torch's in the last bits, as those of
another processor or another version of torch do. That is why the back end is not part of the keys of results; and why
none is used before its features agree with torch's to `TOLERANCE`, on this machine and in this version.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock
from platformdirs import user_cache_path

from slideseek.archive.files import replacing, write_text
from slideseek.digests import digest, digest_bytes
from slideseek.errors import SlideseekError, one_line
from slideseek.types import Float32
from slideseek_components.featurizers.network_runtimes import Passes, open_runtime
from slideseek_components.featurizers.onnx_external import has_external_data
from slideseek_components.featurizers.run_options import Precision, Runtime

if TYPE_CHECKING:
    from torch import nn

TOLERANCE = 1e-4
"""Largest difference from torch's features, relative to the largest feature."""

PROBES = 4
"""Images on which a back end is compared with torch."""

REVISION = 1
"""Increase it when networks are exported in another way: they are exported again."""

CACHE_VARIABLE = "SLIDESEEK_CACHE"
"""Environment variable with another folder for what can be made again."""


@dataclass(frozen=True, slots=True)
class Source:
    """A network to export: its name, what names its weights and architecture, its input side, and how to build it.

    build: returns the network in evaluation mode on the CPU; it is called only if the network has to be exported or
    compared.
    """

    name: str
    identity: str
    side: int
    build: Callable[[], nn.Module]


def open_exported(source: Source, runtime: Runtime, precision: Precision) -> Passes:
    """Return the network of `source`, to be run by `runtime`; export it and compare it with torch if that is due."""
    who = "" if precision != "float32" else f"{runtime} {version(runtime)} on {platform.machine()}"
    kept = _Kept.of(source)
    if not kept.serves(who):
        try:
            kept.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(kept.folder / f"{kept.name}.lock"):
                kept = _Kept.of(source)  # another process may have been faster
                kept.make(source, runtime, who)
                kept.save()
        except (OSError, NotImplementedError):  # a folder that cannot be written or locked: this process has its own
            kept.make(source, runtime, who)
    return open_runtime(kept.model, runtime, precision)


@dataclass(slots=True)
class _Kept:
    """An exported network as the cache has it: its bytes, empty if there are none, and who was compared with torch."""

    folder: Path
    name: str
    model: bytes
    compared: dict[str, float]

    @classmethod
    def of(cls, source: Source) -> _Kept:
        """Read what the cache has of a network; what is damaged or incomplete counts as absent."""
        folder = Path(os.environ.get(CACHE_VARIABLE) or user_cache_path("slideseek")) / "networks"
        name = f"{source.name}-{digest([source.identity, source.side, REVISION])[:16]}"
        try:
            record = json.loads((folder / f"{name}.json").read_text("utf-8"))
            model = (folder / f"{name}.onnx").read_bytes()
            if digest_bytes(model) == record["sha256"] and not has_external_data(model):
                return cls(folder, name, model, dict(record["compared"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return cls(folder, name, b"", {})

    def serves(self, who: str) -> bool:
        """Return whether the network is here and the back end, if it is named, was compared with torch."""
        return bool(self.model) and (not who or who in self.compared)

    def make(self, source: Source, runtime: Runtime, who: str) -> None:
        """Export the network and compare a back end with torch, whichever is missing."""
        if self.serves(who):
            return
        network = source.build()
        if not self.model:
            self.model, self.compared = _exported(network, source), {}
        if who:
            self.compared[who] = _difference(network, self.model, runtime, source)

    def save(self) -> None:
        """Write the network, then the record that vouches for it."""
        record = {"sha256": digest_bytes(self.model), "compared": self.compared}
        with replacing(self.folder / f"{self.name}.onnx") as path:
            path.write_bytes(self.model)
        write_text(self.folder / f"{self.name}.json", json.dumps(record, indent=1))


def _difference(network: nn.Module, model: bytes, runtime: Runtime, source: Source) -> float:
    """Return how far the features of a back end are from torch's, relative to the largest; raise if too far."""
    import torch

    passes = open_runtime(model, runtime, "float32")
    expected, found = [], []
    with torch.inference_mode():
        for pixels in _probes(source.side):
            expected.append(network(torch.from_numpy(pixels)).numpy())
            found.append(passes(pixels).copy())
    wanted, got = np.concatenate(expected), np.concatenate(found)
    difference = float(np.abs(got - wanted).max() / np.abs(wanted).max()) if got.shape == wanted.shape else np.inf
    if not difference <= TOLERANCE:
        raise SlideseekError(
            f"{source.name}: features of {runtime} {version(runtime)} differ from torch's by {difference:.1g},"
            f" more than {TOLERANCE:g}",
            "set backend = 'torch' for this featurizer",
        )
    return difference


def _probes(side: int) -> list[Float32]:
    """Return images of coarse and fine texture as a network sees them, float32 (1, 3, side, side)."""
    rng, images = np.random.default_rng(0), []
    for number in range(PROBES):
        step = 2 ** (2 * number)
        coarse = rng.uniform(-1, 1, (3, -(-side // step), -(-side // step)))
        images.append(np.kron(coarse, np.ones((step, step)))[None, :, :side, :side].astype(np.float32))
    return images


def _exported(network: nn.Module, source: Source) -> bytes:
    import torch

    pixels = torch.zeros(1, 3, source.side, source.side)
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder, "network.onnx")
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # the exporter reports its steps there
                torch.onnx.export(network, (pixels,), path, dynamo=True, external_data=False, verbose=False)
            return path.read_bytes()
    except Exception as error:  # the exporter raises whatever an operator of the network makes it raise
        raise SlideseekError(
            f"{source.name}: torch {version('torch')} cannot export the network ({one_line(error)})",
            "set backend = 'torch' for this featurizer",
        ) from error
