"""AtlasPatch: `patches/<slide>.h5` with groups `features/<encoder>` (n, width) and `slide_features/<encoder>` (width,).

`coords` is (n, 5): x and y of the top-left corner in level-0 pixels, width, height and level of the region that was
read. The patch size and the magnifications are attributes of the file.
"""

from __future__ import annotations

import h5py

from slideseek.archive.features import sound_dataset
from slideseek_apps.interchange.feature_file import (
    FeatureFile,
    check_features,
    to_features,
    to_vector,
    to_xy,
    unbatched,
)
from slideseek_apps.interchange.layouts.hdf5_values import numbers, own_group
from slideseek_apps.interchange.layouts.part import Part
from slideseek_apps.interchange.layouts.trident import STATED, extent_of

PATCHES, SLIDES = "features", "slide_features"


def takes(file: h5py.File) -> bool:
    """Return whether features lie in groups, one dataset per encoder."""
    return bool(parts(file))


def parts(file: h5py.File) -> list[Part]:
    """Return one part per encoder."""
    found = []
    for group, whole in ((PATCHES, False), (SLIDES, True)):
        inside = own_group(file, group)
        names = [name for name in inside or () if not name.startswith("__tmp_")]  # it writes under such a name first
        found += [Part(f"{group}/{name}", name, whole=whole) for name in names]
    return found


def read(file: h5py.File, key: str, whole: bool) -> FeatureFile:
    """Read the features of one encoder; without a key, those of the only one there is."""
    there = [part.key for part in parts(file)]
    if not key and len(there) == 1:
        key = there[0]
    if key not in there:
        raise ValueError(f"it has no features under {key!r} (it has {', '.join(there) or 'none'})")
    group, _, name = key.partition("/")
    features = sound_dataset(own_group(file, group), name)
    if group == SLIDES:
        return to_vector(features[()])
    check_features(features.shape, features.dtype)
    rows = unbatched(features.shape)[0]
    coords = sound_dataset(file, "coords")
    if coords.ndim != 2 or coords.shape[0] != rows or coords.shape[1] not in (2, 5):
        raise ValueError(f"'coords' has shape {coords.shape}, not ({rows}, 5)")
    stated = numbers(coords, STATED) | numbers(file, STATED)
    return FeatureFile(
        features=to_features(features[()]),
        xy=to_xy(coords[:, :2], rows),
        side=round(stated.get("patch_size", 0)),
        extent=extent_of(stated),
        magnification=stated.get("level0_magnification", 0.0),
    )
