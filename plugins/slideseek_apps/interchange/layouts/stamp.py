"""STAMP: one `.h5` per slide with `feats` (n, width) and `coords` (n, 2) in µm, or one file with a vector per slide.

The attributes of the file state the side of a tile in µm and in pixels; versions before 2.1 call the former
`tile_size`. The file of a slide encoder has the attribute `encoder` and one dataset (width,) per slide.
"""

from __future__ import annotations

import h5py
import numpy as np

from slideseek.archive.features import sound_dataset
from slideseek_apps.interchange.feature_file import (
    FeatureFile,
    check_features,
    is_vector,
    to_features,
    to_places,
    to_vector,
    to_xy,
    unbatched,
)
from slideseek_apps.interchange.layouts.hdf5_values import has_dataset, number, text, vector_shaped
from slideseek_apps.interchange.layouts.part import Part

UNIT_UM = 1.0


def takes(file: h5py.File) -> bool:
    """Return whether the file has `feats`, or is that of a slide encoder."""
    return has_dataset(file, "feats") or _of_slide_encoder(file)


def parts(file: h5py.File) -> list[Part]:
    """Return the one part of a slide's file, or one per slide."""
    if _of_slide_encoder(file):
        encoder = text(file, "encoder")
        return [Part(name, encoder, name, whole=True) for name in file]
    return [Part("feats", text(file, "extractor"), whole=vector_shaped(file, "feats"))]


def read(file: h5py.File, key: str, whole: bool) -> FeatureFile:
    """Read tiles with positions in µm, or the vector of a slide."""
    features = sound_dataset(file, key or "feats")
    if key not in ("", "feats") or is_vector(features.shape, whole):
        return to_vector(features[()])
    check_features(features.shape, features.dtype)
    rows = unbatched(features.shape)[0]
    if not has_dataset(file, "coords"):
        return FeatureFile(to_features(features[()]))
    coords = sound_dataset(file, "coords")
    side = round(number(file, "tile_size_px") or 0)
    side_um = number(file, "tile_size_um") or number(file, "tile_size")
    unit = text(file, "unit")
    if unit == "px":
        return FeatureFile(to_features(features[()]), to_xy(coords[()], rows), side=side)
    if unit not in ("um", "µm"):
        raise ValueError(f"its 'coords' have the unit {unit or 'unknown'!r}, not 'um'")
    if side_um is None:
        raise ValueError("it does not state the side of a tile ('tile_size_um')")
    side = side or round(side_um)
    return FeatureFile(
        features=to_features(features[()]),
        side=side,
        mpp=np.full(rows, side_um / side),
        places=to_places(coords[()], rows),
        unit=UNIT_UM,
    )


def _of_slide_encoder(file: h5py.File) -> bool:
    tiles = any(has_dataset(file, name) for name in ("feats", "features"))
    return bool(text(file, "encoder")) and len(file) > 0 and not tiles
