"""Open an ONNX model for images: reject anything but one self-contained file, and read its input and output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import SlideseekError, UsageError
from slideseek.types import Float32
from slideseek_components.featurizers.extras import require_module
from slideseek_components.featurizers.onnx_external import has_external_data
from slideseek_components.featurizers.run_options import Device

LIMIT = 2**31
"""Most bytes: a larger model cannot be one protobuf message."""


@dataclass(frozen=True, slots=True)
class Session:
    """A loaded model with the description of its input and output."""

    runtime: Any
    input: str
    dtype: type[np.floating[Any]]
    channels_first: bool
    side: int
    one_at_a_time: bool
    output: str

    def __call__(self, pixels: Float32) -> NDArray[Any]:
        """Run (n, 3, side, side) through the model and return its output unchanged."""
        arranged = pixels if self.channels_first else pixels.transpose(0, 2, 3, 1)
        feed = {self.input: np.ascontiguousarray(arranged, dtype=self.dtype)}
        return np.asarray(self.runtime.run([self.output], feed)[0])


def open_session(path: Path, output: str, device: Device) -> Session:
    """Load a self-contained model that takes RGB images."""
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
            f"{path.name}: stores its weights in other files, which are not read",
            "save it as one file: onnx.save_model(onnx.load(path), path, save_as_external_data=False)",
        )
    providers = _providers(ort, device)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        runtime = ort.InferenceSession(content, options, providers=providers)
    except Exception as error:  # onnxruntime raises a dozen exception types without a common base
        raise SlideseekError(
            f"{path.name}: onnxruntime cannot load the model ({str(error).splitlines()[0]})", fix
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
