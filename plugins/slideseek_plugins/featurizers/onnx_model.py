"""Any network exported to one ONNX file, run by onnxruntime."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import SlideseekError, UsageError
from slideseek.featurizer_card import FeaturizerCard
from slideseek.types import Float32, UInt8
from slideseek_plugins.featurizers.extras import require_module
from slideseek_plugins.featurizers.onnx_external import has_external_data
from slideseek_plugins.featurizers.pixels import IMAGENET_MEAN, IMAGENET_STD, Preparation, check_images
from slideseek_plugins.featurizers.run_options import Device, check_run_options, cores
from slideseek_plugins.featurizers.weight_files import file_sha256, require_weights

REVISION = 1
"""Of the preprocessing and the pooling: raise it when the features of the same model change."""

Pool: TypeAlias = Literal["mean", "first"]
LIMIT = 2**31
"""Bytes: a larger model cannot be one protobuf message."""


@dataclass(frozen=True, slots=True)
class Session:
    """A loaded model with what its file says about its input and its output."""

    runtime: Any
    input: str
    dtype: type[np.floating[Any]]
    channels_first: bool
    side: int
    one_at_a_time: bool
    output: str

    def __call__(self, pixels: Float32) -> NDArray[Any]:
        """Run (n, 3, side, side) through the model and return its output as it comes."""
        arranged = pixels if self.channels_first else pixels.transpose(0, 2, 3, 1)
        feed = {self.input: np.ascontiguousarray(arranged, dtype=self.dtype)}
        return np.asarray(self.runtime.run([self.output], feed)[0])


@dataclass
class OnnxModel:
    """Describe a patch by an output of a network in an ONNX file.

    weights: the `.onnx` file, everything in it. side: patches are resized to it, in pixels; 0 takes the side the
    model states or, when it states none, the patches as they are. mean, std: of each channel, for pixels from 0
    to 1. output: the name of the output to take, "" for the first. pool: what to do with an output of several
    positions, `mean` over them or the `first` (the class token). batch: images a pass on a GPU. device: where it runs.
    """

    weights: Path | None = None
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
        """Length of one feature vector; the model is loaded and, if its file leaves it open, tried on one image."""
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
        rows = np.empty((len(images), self.width), dtype=np.float32)
        # As with torch: on a CPU one image a pass and one core a pass, so that a row depends on its image alone.
        on_cpu = session.runtime.get_providers()[0] == "CPUExecutionProvider"
        step = 1 if on_cpu or session.one_at_a_time else self.batch

        def forward(start: int) -> None:
            pixels = np.stack([prepare(image) for image in images[start : start + step]])
            rows[start : start + step] = self._pooled(session(pixels))

        with ThreadPoolExecutor(cores() if on_cpu else 1, thread_name_prefix="featurize") as pool:
            for _ in pool.map(forward, range(0, len(images), step)):
                pass
        return rows

    def fingerprint(self) -> str:
        """Name the content of the model file and the revision of the preprocessing."""
        if not self.sha256_:
            self.sha256_ = file_sha256(require_weights(self.weights, self.name, self.source))
        return f"{self.name} r{REVISION} {self.sha256_}"

    def card(self) -> FeaturizerCard:
        """Say what the featurizer expects and whether it could run."""
        there = self.weights is not None and self.weights.expanduser().is_file()
        present = there and find_spec("onnxruntime") is not None
        return FeaturizerCard(self.width_ or None, self.side or 224, 0.5, "of the model", self.source, present)

    def _session(self) -> Session:
        if self.session_ is None:
            path = require_weights(self.weights, self.name, self.source)
            self.session_ = _open(path, self.output, self.device)
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


def _open(path: Path, output: str, device: Device) -> Session:
    """Load a model that is whole in its file and takes RGB images."""
    ort = require_module("onnxruntime", "onnx")
    if path.stat().st_size > LIMIT:
        raise SlideseekError(f"{path.name}: larger than an ONNX file can be", "check that it is the right file")
    content = path.read_bytes()
    fix = "export the network again with PyTorch's or TensorFlow's ONNX exporter"
    try:
        outside = has_external_data(content)
    except ValueError as error:
        raise SlideseekError(f"{path.name}: not an ONNX model ({error})", fix) from error
    if outside:
        raise SlideseekError(
            f"{path.name}: keeps its weights in other files, which are not read",
            "save it as one file: onnx.save_model(onnx.load(path), path, save_as_external_data=False)",
        )
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        runtime = ort.InferenceSession(content, options, providers=_providers(ort, device))
    except Exception as error:  # onnxruntime raises a dozen types of its own without a common base
        raise SlideseekError(
            f"{path.name}: onnxruntime refuses the model ({str(error).splitlines()[0]})", fix
        ) from error
    return _described(runtime, path.name, output)


def _providers(ort: Any, device: Device) -> list[str]:
    wanted = {"cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider", "cpu": "CPUExecutionProvider"}
    there = {name: provider for name, provider in wanted.items() if provider in ort.get_available_providers()}
    if device == "auto":
        return list(there.values())
    if device not in there:
        raise UsageError(f"device {device!r} is not available to onnxruntime here", "use device = 'auto' or 'cpu'")
    return [there[device]]


def _described(runtime: Any, file: str, output: str) -> Session:
    inputs, outputs = runtime.get_inputs(), [node.name for node in runtime.get_outputs()]
    if len(inputs) != 1:
        raise SlideseekError(f"{file}: takes {len(inputs)} inputs, not one image", "export the image network alone")
    shape, kind = inputs[0].shape, inputs[0].type
    dtypes: dict[str, type[np.floating[Any]]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    if kind not in dtypes or len(shape) != 4 or 3 not in (shape[1], shape[3]):
        raise SlideseekError(
            f"{file}: its input is {kind} {shape}, not float (n, 3, side, side) or (n, side, side, 3)",
            "export the network with such an input",
        )
    one = shape[0] == 1
    if isinstance(shape[0], int) and not one:
        raise SlideseekError(f"{file}: takes exactly {shape[0]} images at once", "export it with a free batch size")
    channels_first = shape[1] == 3
    sides = {side for side in (shape[2:] if channels_first else shape[1:3]) if isinstance(side, int)}
    if len(sides) > 1:
        raise SlideseekError(f"{file}: takes images of {shape}, which are not square", "export it for square images")
    if output and output not in outputs:
        raise UsageError(f"{file}: no output {output!r}", f"use one of {', '.join(outputs)}")
    side = sides.pop() if sides else 0
    return Session(runtime, inputs[0].name, dtypes[kind], channels_first, side, one, output or outputs[0])
