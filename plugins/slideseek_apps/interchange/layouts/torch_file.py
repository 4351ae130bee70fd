"""Read PyTorch feature files: one tensor in a `.pt`, as CLAM writes next to its HDF5. No code in it is ever run."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

from slideseek.archive.features import MAX_BYTES
from slideseek_apps.interchange.feature_file import FeatureFile, is_vector, to_features, to_vector

MAX_STRUCTURE_BYTES = 1 << 20
"""Limit for the part that describes the tensor, in bytes. A real file needs a few hundred."""


def read_pt(path: Path, key: str = "", whole: bool = False) -> FeatureFile:
    """Read one float tensor: (n, width), features without coords, or the vector of a whole slide.

    The tensor's bytes are mapped, not copied, until the size is checked against the file: PyTorch itself trusts the
    sizes a file states.
    """
    import torch

    held = _tensor_bytes(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise ValueError(_refusal(path, error)) from error
    if type(loaded) is not torch.Tensor:
        raise ValueError(f"it holds a {type(loaded).__name__}, not one tensor")
    if not loaded.is_floating_point():
        raise ValueError(f"its tensor is {loaded.dtype}, not floats")
    claimed = loaded.numel() * loaded.element_size()
    if loaded.layout != torch.strided or not loaded.is_contiguous() or claimed != held or claimed > MAX_BYTES:
        raise ValueError(f"its tensor claims {claimed:,} bytes, but the file has {held:,}")
    values = loaded.to(torch.float32).numpy().copy()
    return to_vector(values) if is_vector(values.shape, whole) else FeatureFile(to_features(values))


def _tensor_bytes(path: Path) -> int:
    """Return the number of tensor bytes in a file, after checking its parts."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not a file of PyTorch 1.6 or later")
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
    if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise ValueError("it is compressed, which PyTorch never does")
    if any(part.filename.endswith(".pkl") and part.file_size > MAX_STRUCTURE_BYTES for part in parts):
        raise ValueError("it is more than one tensor")
    return sum(part.file_size for part in parts if part.filename.split("/")[1:2] == ["data"])


def _refusal(path: Path, error: Exception) -> str:
    """Return why PyTorch rejected a file: the code it would have run, or the first line of the error."""
    from torch.serialization import get_unsafe_globals_in_checkpoint

    try:
        names = sorted(get_unsafe_globals_in_checkpoint(path))
    except Exception:
        names = []
    if names:
        return f"it would run {', '.join(names[:3])}; a feature file is one tensor and contains no code"
    text = " ".join(str(error).split())
    if "weights_only" in text:  # PyTorch's own message advises running the file's code
        return "it does not have the structure of a tensor"
    return f"PyTorch cannot read it ({text[:160] or type(error).__name__})"
