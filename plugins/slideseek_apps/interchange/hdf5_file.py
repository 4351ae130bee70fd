"""Feature files in HDF5, as TRIDENT, CLAM and this project write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np

from slideseek.archive.features import sound_dataset
from slideseek.types import Float64
from slideseek_apps.interchange.feature_file import (
    FeatureFile,
    check_coords,
    check_features,
    to_features,
    to_xy,
    unbatched,
)

STATED = (
    *("patch_size", "patch_size_level0", "level0_magnification", "target_magnification"),
    *("level0_mpp", "patch_level", "custom_downsample"),
)

LARGEST = 1e6
"""Larger than any plausible side in pixels, magnification or resolution."""


def read_hdf5(path: Path) -> FeatureFile:
    """Read one file: `features` (n, width) or (1, n, width), `coords` likewise, and the attributes of `coords`.

    Links, external storage, virtual datasets and shapes the file cannot hold are rejected before they are read.
    """
    with h5py.File(path, "r", locking="best-effort") as file:  # a read-only share may not support locks
        features = sound_dataset(file, "features")
        check_features(features.shape, features.dtype)
        rows = unbatched(features.shape)[0]
        coords = sound_dataset(file, "coords") if file.get("coords", getlink=True) is not None else None
        if coords is None:
            return FeatureFile(to_features(features[()]))
        check_coords(coords.shape, coords.dtype, rows)
        stated = {name: value for name in STATED if (value := _number(coords, name)) is not None}
        return FeatureFile(
            features=to_features(features[()]),
            xy=to_xy(coords[()], rows),
            side=round(stated.get("patch_size", 0)),
            extent=_extent(stated),
            slide_mpp=stated.get("level0_mpp", 0.0),
            magnification=stated.get("level0_magnification", 0.0),
            mpp=_mpp(file, rows),
        )


def _number(dataset: h5py.Dataset, name: str) -> float | None:
    """Return an attribute that is one plausible number (a level may be 0), else None."""
    if name not in dataset.attrs:
        return None
    attribute = dataset.attrs.get_id(name)
    if attribute.shape != () or attribute.dtype.kind not in "iuf":
        return None
    value = float(dataset.attrs[name])
    return value if 0 < value < LARGEST or (value == 0 and name == "patch_level") else None


def _extent(stated: Mapping[str, float]) -> float:
    """Return the side of a patch in level-0 pixels, 0 when the attributes do not say."""
    if "patch_size_level0" in stated:
        return stated["patch_size_level0"]
    side = stated.get("patch_size", 0.0)
    if "level0_magnification" in stated and "target_magnification" in stated:
        return side * stated["level0_magnification"] / stated["target_magnification"]
    if stated.get("patch_level") == 0:
        return side * stated.get("custom_downsample", 1.0)
    return 0.0


def _mpp(file: h5py.File, rows: int) -> Float64 | None:
    """Return the resolution of each patch, which only our own files contain."""
    if file.get("mpp", getlink=True) is None:
        return None
    dataset = sound_dataset(file, "mpp")
    if dataset.shape != (rows,) or dataset.dtype.kind != "f":
        return None
    values = np.ascontiguousarray(dataset[()], dtype=np.float64)
    return values if np.isfinite(values).all() and (values > 0).all() else None
