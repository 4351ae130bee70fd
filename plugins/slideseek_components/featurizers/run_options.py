"""Options for how a network runs, not for what it computes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from slideseek.errors import UsageError

Device: TypeAlias = Literal["auto", "cpu", "cuda", "mps"]

Backend: TypeAlias = Literal["auto", "torch", "onnxruntime", "openvino"]
"""What runs a network. All but torch run on the CPU, from the network exported to ONNX."""

Runtime: TypeAlias = Literal["torch", "onnxruntime", "openvino"]
"""A back end that was decided on."""

Precision: TypeAlias = Literal["float32", "bfloat16"]

AnyPrecision: TypeAlias = Literal["float32", "bfloat16", "float16"]
"""With torch, both shorter formats; OpenVINO has bfloat16."""

EXPORTERS = ("onnx", "onnxscript")
"""Packages that torch needs to export a network."""

_GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")


def check_run_options(
    batch: int,
    device: str,
    backend: str = "auto",
    precision: str = "float32",
    short_formats: Mapping[str, tuple[str, ...]] = MappingProxyType({"bfloat16": ("openvino",)}),
) -> None:
    """Check the options shared by featurizers with a network; raise a ValueError that names the field.

    short_formats: the precisions besides float32, each with the back ends that compute in it.
    """
    if batch < 1:
        raise ValueError(f"batch: at least 1, not {batch}")
    precisions = ("float32", *short_formats)
    given = (
        ("device", device, get_args(Device)),
        ("backend", backend, get_args(Backend)),
        ("precision", precision, precisions),
    )
    for name, value, allowed in given:
        if value not in allowed:
            raise ValueError(f"{name}: one of {', '.join(allowed)}, not {value!r}")
    able = short_formats.get(precision, (backend,))
    if backend not in able:
        raise ValueError(f"precision: {precision} needs backend = {' or '.join(map(repr, able))}, not {backend!r}")
    if backend in ("onnxruntime", "openvino") and device not in ("auto", "cpu"):
        raise ValueError(f"backend: {backend} runs on the CPU, not on device {device!r}")


def choose_backend(backend: Backend, device: Device) -> Runtime:
    """Return the back end to run with; `auto` is the fastest installed one where no GPU is used, else torch.

    onnxruntime and OpenVINO take the same time for the default network (`python -m bench.precision`); onnxruntime comes
    first because it loads faster.
    """
    if backend != "auto":
        for package in () if backend == "torch" else (backend, *EXPORTERS):
            if find_spec(package) is None:
                extra = "openvino" if backend == "openvino" else "onnx"
                raise UsageError(
                    f"backend {backend!r} needs the package {package}", f"run: pip install 'slideseek[{extra}]'"
                )
        return backend
    if device in ("cuda", "mps") or any(find_spec(package) is None for package in EXPORTERS):
        return "torch"
    names: tuple[Runtime, ...] = ("onnxruntime", "openvino")
    found = [name for name in names if find_spec(name)]
    return "torch" if not found or (device == "auto" and _has_gpu()) else found[0]


def _has_gpu() -> bool:
    """Return whether torch finds a GPU. It is only asked, and imported, where there may be one: that takes seconds."""
    if sys.platform.startswith("linux") and (
        version("torch").endswith("+cpu") or not any(Path(file).exists() for file in _GPU_FILES)
    ):
        return False
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()


def cores() -> int:
    """Return how many cores to use: OMP_NUM_THREADS if set, else all that this process may use."""
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1
