"""Run a network exported to ONNX on the CPU, with onnxruntime or OpenVINO: one image and one core per pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import UsageError
from slideseek.types import Float32, UInt8
from slideseek_components.featurizers.extras import require_module
from slideseek_components.featurizers.run_options import Precision, Runtime, cores


class Passes(Protocol):
    """Takes float32 (1, 3, side, side) to (1, width). Several threads may call it at once."""

    def __call__(self, pixels: Float32, /) -> NDArray[Any]: ...


def open_runtime(model: bytes, runtime: Runtime, precision: Precision) -> Passes:
    """Return the network of a serialised ONNX model, to be run with `runtime` on the CPU."""
    return _onnxruntime(model) if runtime == "onnxruntime" else _openvino(model, precision)


def run_each(
    network: Callable[[Float32], NDArray[Any]],
    images: UInt8,
    prepare: Callable[[UInt8], Float32],
    width: int,
    step: int = 1,
    workers: int = 0,
) -> Float32:
    """Return float32 (n, width): the output of `network` for the n prepared images.

    step: images per pass; with 1 a row depends only on its own image, to the last bit. workers: threads, each on
    different images, 0 for one per core.
    """
    rows = np.empty((len(images), width), dtype=np.float32)

    def forward(start: int) -> None:
        pixels = np.stack([prepare(image) for image in images[start : start + step]])
        rows[start : start + step] = network(pixels)

    starts = range(0, len(images), step)
    workers = min(workers or cores(), len(starts))
    if workers > 0:
        with ThreadPoolExecutor(workers, thread_name_prefix="featurize") as pool:
            for _ in pool.map(forward, starts):
                pass
    return rows


def _onnxruntime(model: bytes) -> Passes:
    ort = require_module("onnxruntime", "onnx")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(pixels: Float32) -> NDArray[Any]:
        return np.asarray(session.run(None, {name: np.ascontiguousarray(pixels)})[0])

    return run


def _openvino(model: bytes, precision: Precision) -> Passes:
    openvino = require_module("openvino", "openvino")
    core = openvino.Core()
    if precision == "bfloat16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        # OpenVINO would compute in float32 without a word, and the features would be stored as bfloat16's.
        raise UsageError("precision: this processor cannot compute in bfloat16", 'set precision = "float32"')
    hint = "bf16" if precision == "bfloat16" else "f32"
    # One stream per core and one core per stream: the number of cores does not change a pass.
    settings = {"INFERENCE_PRECISION_HINT": hint, "NUM_STREAMS": cores(), "INFERENCE_NUM_THREADS": cores()}
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    threads = threading.local()

    def run(pixels: Float32) -> NDArray[Any]:
        if not hasattr(threads, "request"):
            threads.request = compiled.create_infer_request()
        # The output belongs to the request and is overwritten by its next pass; the caller copies it before that.
        return np.asarray(threads.request.infer([np.ascontiguousarray(pixels)], share_inputs=True)[0])

    return run
