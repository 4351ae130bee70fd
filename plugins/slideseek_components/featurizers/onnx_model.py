"""Any network exported to one ONNX file, run with onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from slideseek.digests import sha256_file
from slideseek.errors import SlideseekError, UsageError
from slideseek.interfaces import Described, Fingerprinted, Resizing
from slideseek.types import FeaturizerCard, Float32, UInt8
from slideseek_components.featurizers.network_runtimes import run_each
from slideseek_components.featurizers.onnx_session import Session, open_session
from slideseek_components.featurizers.pixels import IMAGENET_MEAN, IMAGENET_STD, Preparation, check_images
from slideseek_components.featurizers.run_options import Device, check_run_options, cores
from slideseek_components.featurizers.weight_files import require_weights

REVISION = 1
"""Revision of the preprocessing and the pooling: increase it when the features of the same model change."""

Pool: TypeAlias = Literal["mean", "first"]


@dataclass
class OnnxModel(Resizing, Described, Fingerprinted):
    """Describe a patch by an output of a network in an ONNX file.

    weights: the `.onnx` file, with all weights inside. side: patches are resized to it, in pixels; 0 takes the side
    stated by the model or, if there is none, the patches as they are. mean, std: of each channel, for pixels from 0
    to 1. output: the name of the output to use, "" for the first. pool: how to reduce an output with several
    positions, their `mean` or the `first` (the class token). batch: images per pass on a GPU. device: where it runs.
    """

    code_revision: ClassVar[int] = 1

    weights: Path | None = field(default=None, metadata={"affects_result": False})  # its content does: fingerprint()
    side: int = 0
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    output: str = ""
    pool: Pool = "mean"
    batch: int = field(default=16, metadata={"affects_result": False})
    device: Device = field(default="auto", metadata={"affects_result": False})
    session_: Session | None = field(default=None, init=False, repr=False, compare=False)
    width_: int = field(default=0, init=False, repr=False, compare=False)
    sha256_: str = field(default="", init=False, repr=False, compare=False)

    name: ClassVar[str] = "onnx"
    source: ClassVar[str] = "your own export, one .onnx file"

    def __post_init__(self) -> None:
        if self.side and not 8 <= self.side <= 4096:
            raise ValueError(f"side: 0 or 8 to 4096 pixels, not {self.side}")
        if any(value <= 0 for value in self.std):
            raise ValueError(f"std: three numbers above 0, not {self.std}")
        if self.pool not in get_args(Pool):
            raise ValueError(f"pool: one of {', '.join(get_args(Pool))}, not {self.pool!r}")
        check_run_options(self.batch, self.device)

    @property
    def width(self) -> int:
        """Length of one feature vector; the model is loaded and, if its file does not state it, run on one image."""
        if not self.width_:
            session = self._session()
            side = self.side or session.side or 224
            self.width_ = self._pooled(session(np.zeros((1, 3, side, side), dtype=np.float32))).shape[1]
        return self.width_

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, width)."""
        check_images(images)
        session = self._session()
        prepare = Preparation.unit(self.side or session.side, self.mean, self.std)
        # As with torch: on a CPU one image and one core per pass, so a row depends only on its image.
        on_cpu = session.runtime.get_providers()[0] == "CPUExecutionProvider"
        step = 1 if on_cpu or session.one_at_a_time else self.batch
        workers = cores() if on_cpu else 1
        return run_each(lambda pixels: self._pooled(session(pixels)), images, prepare, self.width, step, workers)

    def fingerprint(self) -> str:
        """Return the digest of the model file and the revision of the preprocessing."""
        if not self.sha256_:
            self.sha256_ = sha256_file(require_weights(self.weights, self.name, self.source))
        return f"{self.name} r{REVISION} {self.sha256_}"

    def card(self) -> FeaturizerCard:
        """Return what the featurizer expects and whether it can run."""
        there = self.weights is not None and self.weights.expanduser().is_file()
        present = there and find_spec("onnxruntime") is not None
        return FeaturizerCard(self.width_ or None, self.side or 224, 0.5, "of the model", self.source, present)

    def _session(self) -> Session:
        if self.session_ is None:
            path = require_weights(self.weights, self.name, self.source)
            self.session_ = open_session(path, self.output, self.device)
            if self.side and self.session_.side and self.side != self.session_.side:
                raise UsageError(
                    f"{path.name} takes images of {self.session_.side} pixels, not side = {self.side}",
                    "leave side at 0",
                )
        return self.session_

    def _pooled(self, output: NDArray[Any]) -> Float32:
        """Turn (n, d), (n, positions, d) or (n, d, h, w) into float32 (n, d)."""
        if output.ndim == 4:
            output = output.reshape(*output.shape[:2], -1).transpose(0, 2, 1)
        if output.ndim == 3:
            output = output[:, 0] if self.pool == "first" else output.mean(axis=1)
        if output.ndim != 2:
            raise SlideseekError(
                f"the model's output has {output.ndim} dimensions",
                "choose an output of 2, 3 or 4 dimensions with output =",
            )
        return np.asarray(output, dtype=np.float32)
