"""Read NumPy feature files: one array in a `.npy`, or `features` and `coords` in a `.npz`. Objects are never read."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from slideseek.archive.features import refuse_bomb
from slideseek_apps.interchange.feature_file import (
    FeatureFile,
    check_coords,
    check_features,
    is_vector,
    to_features,
    to_vector,
    to_xy,
)


def read_npy(path: Path, key: str = "", whole: bool = False) -> FeatureFile:
    """Read one array: (n, width), features without coords, or the vector of a whole slide."""
    with path.open("rb") as stream:
        header = _Header(stream, "features", path.stat().st_size)
        if is_vector(header.shape, whole):
            return to_vector(header.array())
        check_features(header.shape, header.dtype)
        return FeatureFile(to_features(header.array()))


def read_npz(path: Path, key: str = "", whole: bool = False) -> FeatureFile:
    """Read `features` (n, width) and, if present, `coords` (n, 2); or `features` (width,), of a whole slide."""
    with zipfile.ZipFile(path) as archive:
        if "features.npy" not in archive.namelist():
            raise ValueError(f"it has no array 'features' (arrays: {', '.join(archive.namelist()[:5]) or 'none'})")
        with archive.open("features.npy") as stream:
            header = _member(archive, "features", stream, path)
            if is_vector(header.shape, whole):
                return to_vector(header.array())
            check_features(header.shape, header.dtype)
            features = to_features(header.array())
        if "coords.npy" not in archive.namelist():
            return FeatureFile(features)
        with archive.open("coords.npy") as stream:
            header = _member(archive, "coords", stream, path)
            check_coords(header.shape, header.dtype, len(features))
            return FeatureFile(features, to_xy(header.array(), len(features)))


def array_names(path: Path) -> set[str]:
    """Return the names of the arrays in a `.npz`."""
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy") for name in archive.namelist()}


def read_array(path: Path, name: str) -> NDArray[Any]:
    """Read one array of a `.npz`, of numbers or of text."""
    with zipfile.ZipFile(path) as archive:
        if f"{name}.npy" not in archive.namelist():
            raise ValueError(f"{path.name} has no array {name!r}")
        with archive.open(f"{name}.npy") as stream:
            return _member(archive, name, stream, path).array()


def _member(archive: zipfile.ZipFile, name: str, stream: IO[bytes], path: Path) -> _Header:
    """Check one array of a `.npz`. Its unpacked size is known, and bounded, before it is unpacked."""
    entry = archive.getinfo(f"{name}.npy")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name!r} uses a compression that NumPy does not write")
    refuse_bomb(name, entry.file_size, min(entry.compress_size, path.stat().st_size))
    return _Header(stream, name, entry.file_size)


class _Header:
    """The header of an array in NumPy's format. Its shape is trusted only if the bytes are there."""

    def __init__(self, stream: IO[bytes], name: str, size: int) -> None:
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{name!r} is in version {version[0]}.{version[1]} of NumPy's format")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        self.shape, self._fortran, self.dtype = read(stream)
        if self.dtype.hasobject:
            raise ValueError(f"{name!r} contains Python objects, which are never read")
        if any(side < 0 for side in self.shape):
            raise ValueError(f"{name!r} has shape {self.shape}")
        self._bytes = math.prod(self.shape) * self.dtype.itemsize
        held = size - stream.tell()
        if self._bytes != held:
            raise ValueError(f"{name!r} claims {self._bytes:,} bytes but has {held:,}")
        refuse_bomb(name, self._bytes, held)
        self._stream, self._name = stream, name

    def array(self) -> NDArray[Any]:
        """Read the array."""
        data = self._stream.read(self._bytes)
        if len(data) != self._bytes:
            raise ValueError(f"{self._name!r} is truncated")
        return np.frombuffer(data, self.dtype).reshape(self.shape, order="F" if self._fortran else "C")
