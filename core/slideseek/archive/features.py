"""Feature files: one HDF5 file per slide in the layout of TRIDENT and CLAM, `features` (n, d) and `coords` (n, 2).

Files may come from elsewhere, so each is checked before memory is allocated: no links, no storage outside the file, no
unwritten parts, no shape larger than the file can hold.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from slideseek.archive.files import write_bytes
from slideseek.errors import DamagedError
from slideseek.types import Float32, Float64, Int32, Patches

MAX_WIDTH = 1 << 20
MAX_ROWS = 1 << 31
MAX_BYTES = 16 << 30
"""Most bytes in one array: ten times the features of the largest slides known."""

HARMLESS_BYTES = 64 << 20
MAX_PACKING = 100
"""Largest compression ratio of real features or coordinates, checked above `HARMLESS_BYTES`."""

MAPPED_BYTES = 8 << 20
"""Bytes above which features are memory-mapped, so a slide of any size fits; below it, reading is cheaper."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredFeatures:
    """The content of a feature file, as in `slideseek.types.Bag`; sides and mpp are None where it does not say."""

    features: Float32
    xy: Int32
    sides: Float64 | None
    mpp: float | None


def write_features(path: Path, features: Float32, patches: Patches, slide_mpp: float, key: str) -> None:
    """Write one slide's features (n, width) and coordinates; the attributes record how the patches were read."""
    extent = patches.size * (float(patches.mpp[0]) if len(patches) else 0.0) / slide_mpp
    packed = io.BytesIO()  # in memory: HDF5 cannot close a file on a full disk, and ends the process
    with h5py.File(packed, "w") as file:
        file.create_dataset("features", data=features)
        coords = file.create_dataset("coords", data=patches.xy)
        coords.attrs["patch_size"] = patches.size
        coords.attrs["patch_size_level0"] = round(extent)
        coords.attrs["level0_mpp"] = slide_mpp
        coords.attrs["name"] = patches.slide_id
        for name, values in {"mpp": patches.mpp, **patches.scores}.items():
            file.create_dataset(name, data=values)
        file.attrs["slideseek_key"] = key
    write_bytes(path, packed.getbuffer())


def read_features(path: Path) -> StoredFeatures:
    """Read features float32 (n, width) and coordinates int32 (n, 2); an invalid file is a `DamagedError`.

    Large features stored contiguously, as `write_features` does, are memory-mapped read-only and loaded as needed.
    """
    try:
        with h5py.File(path, "r") as file:
            features, coords = sound_dataset(file, "features"), sound_dataset(file, "coords")
            if features.ndim != 2 or features.shape[1] < 1 or features.shape[1] > MAX_WIDTH or len(features) > MAX_ROWS:
                raise ValueError(f"'features' has shape {features.shape}, not (n, width)")
            if coords.shape != (len(features), 2):
                raise ValueError(f"'coords' has shape {coords.shape}, not ({len(features)}, 2)")
            if features.dtype.kind != "f" or coords.dtype.kind not in "iuf":
                raise ValueError(f"'features' is {features.dtype}, 'coords' is {coords.dtype}")
            xy = np.asarray(coords[:], dtype=np.int32)
            return StoredFeatures(_rows(path, features), xy, *_geometry(file, coords))
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        why = " ".join(str(error).split())
        raise DamagedError(f"{path} is not a valid feature file ({why})", "write it again") from error


def _geometry(file: h5py.File, coords: h5py.Dataset) -> tuple[Float64 | None, float | None]:
    """Return the side of each patch in level-0 pixels, float64 (n,), and µm per level-0 pixel, where the file says."""
    if "mpp" not in file or not {"patch_size", "level0_mpp"} <= set(coords.attrs):
        return None, None
    mpp, slide_mpp = sound_dataset(file, "mpp"), float(coords.attrs["level0_mpp"])
    if mpp.shape != (len(coords),) or not 0 < slide_mpp < math.inf:
        raise ValueError("'mpp' does not state the resolution of each patch")
    return int(coords.attrs["patch_size"]) * np.asarray(mpp[:], dtype=np.float64) / slide_mpp, slide_mpp


def _rows(path: Path, features: h5py.Dataset) -> Float32:
    """Return the rows of a valid dataset, memory-mapped if they are large and need no conversion."""
    plain = features.chunks is None and features.dtype == np.dtype("<f4")
    if plain and features.nbytes > MAPPED_BYTES:
        return np.asarray(np.memmap(path, np.float32, "r", features.id.get_offset(), features.shape))
    return np.asarray(features[:], dtype=np.float32)


def sound_dataset(file: h5py.File, name: str) -> h5py.Dataset:
    """Return a dataset stored entirely inside the file; anything else is a `ValueError` with the reason."""
    link = file.get(name, getlink=True)
    if link is None:
        raise ValueError(f"{name!r} is missing")
    if not isinstance(link, h5py.HardLink):
        raise ValueError(f"{name!r} is a link, not a dataset in the file itself")
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None or dataset.external or dataset.is_virtual:
        raise ValueError(f"{name!r} is not a dataset stored in the file itself")
    stored, claimed = dataset.id.get_storage_size(), dataset.nbytes
    if dataset.chunks:
        # A chunk is decompressed whole and may be far larger than the part the dataset uses.
        claimed = max(claimed, math.prod(dataset.chunks) * dataset.dtype.itemsize)
    refuse_bomb(name, claimed, stored)
    if not _written(dataset, stored):
        raise ValueError(f"{name!r} is incomplete: parts of it were never written")
    return dataset


def refuse_bomb(name: str, claimed: int, stored: int) -> None:
    """Raise `ValueError` if an array claims far more bytes than are stored for it."""
    if claimed > MAX_BYTES or claimed > max(HARMLESS_BYTES, stored * MAX_PACKING):
        raise ValueError(f"{name!r} claims {claimed:,} bytes and stores {stored:,}")


def _written(dataset: h5py.Dataset, stored: int) -> bool:
    """Return whether every part is present; HDF5 returns zeros for a missing part."""
    if dataset.chunks is None:
        return bool(stored >= dataset.nbytes)
    wanted = math.prod(math.ceil(side / chunk) for side, chunk in zip(dataset.shape, dataset.chunks))
    return bool(dataset.id.get_num_chunks() >= wanted)
