"""TRIDENT, CLAM and this project: one `.h5` per slide with `features` and `coords` in level-0 pixels.

TRIDENT writes the vector of a whole slide, (width,), under the same name, in a folder `slide_features_<encoder>`.
"""

from __future__ import annotations

from collections.abc import Mapping

import h5py
import numpy as np

from slideseek.archive.features import sound_dataset
from slideseek.types import Float64
from slideseek_apps.interchange.feature_file import (
    FeatureFile,
    check_coords,
    check_features,
    is_vector,
    to_features,
    to_vector,
    to_xy,
    unbatched,
)
from slideseek_apps.interchange.layouts.hdf5_values import has_dataset, numbers, vector_shaped
from slideseek_apps.interchange.layouts.part import Part

STATED = (
    *("patch_size", "patch_size_level0", "level0_magnification", "target_magnification"),
    *("level0_mpp", "patch_level", "custom_downsample"),
)


def takes(file: h5py.File) -> bool:
    """Return True: this is the layout of any file that no other tool wrote."""
    return True


def parts(file: h5py.File) -> list[Part]:
    """Return the one part of a file; none for one with `coords` alone, as TRIDENT writes in `patches`."""
    if not has_dataset(file, "features"):
        return [] if has_dataset(file, "coords") else [Part()]
    return [Part(whole=vector_shaped(file, "features"))]


def read(file: h5py.File, key: str, whole: bool) -> FeatureFile:
    """Read one file: `features` (n, width) or (1, n, width), `coords` likewise, and the attributes of `coords`.

    Links, external storage, virtual datasets and shapes the file cannot hold are rejected before they are read.
    """
    features = sound_dataset(file, "features")
    if is_vector(features.shape, whole):
        return to_vector(features[()])
    check_features(features.shape, features.dtype)
    rows = unbatched(features.shape)[0]
    coords = sound_dataset(file, "coords") if has_dataset(file, "coords") else None
    if coords is None:
        return FeatureFile(to_features(features[()]))
    check_coords(coords.shape, coords.dtype, rows)
    stated = numbers(coords, STATED)
    return FeatureFile(
        features=to_features(features[()]),
        xy=to_xy(coords[()], rows),
        side=round(stated.get("patch_size", 0)),
        extent=extent_of(stated),
        slide_mpp=stated.get("level0_mpp", 0.0),
        magnification=stated.get("level0_magnification", 0.0),
        mpp=_mpp(file, rows),
    )


def extent_of(stated: Mapping[str, float]) -> float:
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
