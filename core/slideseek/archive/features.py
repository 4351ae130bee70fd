"""Feature files: one HDF5 a slide in the layout TRIDENT and CLAM use, `features` (n, d) and `coords` (n, 2).

Files come from outside too, so a file is looked over before a byte is allocated: no links, no storage outside
the file, nothing that was never written, no shape that its size cannot hold.
"""

from __future__ import annotations

import math
from pathlib import Path

import h5py
import numpy as np

from slideseek.archive.files import replacing
from slideseek.errors import DamagedError
from slideseek.types import Float32, Int32, Patches

MAX_WIDTH = 1 << 20
MAX_ROWS = 1 << 31
MAX_BYTES = 16 << 30
"""Bytes of one array: ten times the features of the largest slides there are."""

HARMLESS_BYTES = 64 << 20
MAX_PACKING = 100
"""Above `HARMLESS_BYTES`, no real features or coordinates are packed more tightly than this many times."""

MAPPED_BYTES = 8 << 20
"""Features above this are mapped, not read: a slide of any size fits in memory. Below it, a mapping costs more."""


def write_features(path: Path, features: Float32, patches: Patches, slide_mpp: float, key: str) -> None:
    """Write one slide's features (n, width) and coordinates; the attributes say how the patches were read."""
    extent = patches.size * (float(patches.mpp[0]) if len(patches) else 0.0) / slide_mpp
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        file.create_dataset("features", data=features)
        coords = file.create_dataset("coords", data=patches.xy)
        coords.attrs["patch_size"] = patches.size
        coords.attrs["patch_size_level0"] = round(extent)
        coords.attrs["level0_mpp"] = slide_mpp
        coords.attrs["name"] = patches.slide_id
        file.create_dataset("mpp", data=patches.mpp)
        file.attrs["slideseek_key"] = key


def read_features(path: Path) -> tuple[Float32, Int32]:
    """Read features float32 (n, width) and coordinates int32 (n, 2); a file that is not sound is a `DamagedError`.

    Large features stored in one piece, as `write_features` does, are mapped read-only and paged in as they are used.
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
            return _rows(path, features), np.asarray(coords[:], dtype=np.int32)
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        why = " ".join(str(error).split())
        raise DamagedError(f"{path} is not a sound feature file ({why})", "write it again") from error


def _rows(path: Path, features: h5py.Dataset) -> Float32:
    """Return the rows of a sound dataset, mapped where they are large and stored as they are used."""
    plain = features.chunks is None and features.dtype == np.dtype("<f4")
    if plain and features.nbytes > MAPPED_BYTES:
        return np.asarray(np.memmap(path, np.float32, "r", features.id.get_offset(), features.shape))
    return np.asarray(features[:], dtype=np.float32)


def sound_dataset(file: h5py.File, name: str) -> h5py.Dataset:
    """Return a dataset stored plainly and wholly inside the file; anything else is a `ValueError` that says why."""
    link = file.get(name, getlink=True)
    if link is None:
        raise ValueError(f"{name!r} is missing")
    if not isinstance(link, h5py.HardLink):
        raise ValueError(f"{name!r} is a link, not a dataset of the file itself")
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None or dataset.external or dataset.is_virtual:
        raise ValueError(f"{name!r} is not a dataset stored in the file itself")
    stored, claimed = dataset.id.get_storage_size(), dataset.nbytes
    if dataset.chunks:
        # A chunk is unpacked whole, and may be far larger than what the dataset holds of it.
        claimed = max(claimed, math.prod(dataset.chunks) * dataset.dtype.itemsize)
    refuse_bomb(name, claimed, stored)
    if not _written(dataset, stored):
        raise ValueError(f"{name!r} was never written to the end")
    return dataset


def refuse_bomb(name: str, claimed: int, stored: int) -> None:
    """Raise `ValueError` when an array claims more bytes than memory should be given for what is stored of it."""
    if claimed > MAX_BYTES or claimed > max(HARMLESS_BYTES, stored * MAX_PACKING):
        raise ValueError(f"{name!r} claims {claimed:,} bytes and stores {stored:,}")


def _written(dataset: h5py.Dataset, stored: int) -> bool:
    """Say whether every part is there; HDF5 gives back zeros for a part that is not."""
    if dataset.chunks is None:
        return bool(stored >= dataset.nbytes)
    wanted = math.prod(math.ceil(side / chunk) for side, chunk in zip(dataset.shape, dataset.chunks))
    return bool(dataset.id.get_num_chunks() >= wanted)
