"""Feature files: one HDF5 a slide in the layout TRIDENT and CLAM use, `features` (n, d) and `coords` (n, 2).

Files come from outside too, so a file is looked over before a byte is allocated: no links, no storage outside
the file, no shape that its size cannot hold.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from slideseek.archive.files import replacing
from slideseek.errors import DamagedError
from slideseek.types import Float32, Int32, Patches

MAX_WIDTH = 1 << 20
MAX_ROWS = 1 << 31


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
    """Read features float32 (n, width) and coordinates int32 (n, 2); a file that is not sound is a `DamagedError`."""
    fix = "write it again"
    try:
        with h5py.File(path, "r") as file:
            features = _checked(file, "features", path)
            coords = _checked(file, "coords", path)
            if features.ndim != 2 or features.shape[1] < 1 or features.shape[1] > MAX_WIDTH or len(features) > MAX_ROWS:
                raise DamagedError(f"{path}: 'features' has shape {features.shape}, not (n, width)", fix)
            if coords.shape != (len(features), 2):
                raise DamagedError(f"{path}: 'coords' has shape {coords.shape}, not ({len(features)}, 2)", fix)
            if features.dtype.kind != "f" or coords.dtype.kind not in "iuf":
                raise DamagedError(f"{path}: 'features' is {features.dtype}, 'coords' is {coords.dtype}", fix)
            return np.asarray(features[:], dtype=np.float32), np.asarray(coords[:], dtype=np.int32)
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise DamagedError(f"{path} is not a sound feature file ({str(error).splitlines()[0]})", fix) from error


def _checked(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """Return a dataset stored plainly inside the file, whose bytes the file can really hold."""
    link = file.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        raise DamagedError(f"{path}: {name!r} is {'missing' if link is None else 'a link'}", "use a plain dataset")
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.external or dataset.is_virtual:
        raise DamagedError(f"{path}: {name!r} is not a dataset stored in the file itself", "use a plain dataset")
    stored = dataset.id.get_storage_size()
    # A compressed dataset may claim a huge shape with few bytes: nothing real is packed a thousandfold.
    if dataset.nbytes > max(stored, 1) * 1000:
        raise DamagedError(f"{path}: {name!r} claims {dataset.nbytes} bytes and stores {stored}", "use a sound file")
    return dataset
