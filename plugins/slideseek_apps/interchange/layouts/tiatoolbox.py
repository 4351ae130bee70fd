"""TIAToolbox: `<slide>.zarr` with `features` (n, width) and `coordinates` (n, 4), in pixels as the patches were read.

A row of coordinates is left, top, right and bottom. The store does not state the resolution of these pixels.
"""

from __future__ import annotations

from typing import Any

from slideseek_apps.interchange.feature_file import FeatureFile, to_features, to_places
from slideseek_apps.interchange.layouts.part import Part
from slideseek_apps.interchange.layouts.zarr_store import member, numbers


def takes(store: Any) -> bool:
    """Return whether a store has features at its top."""
    return hasattr(member(store, "features"), "dtype")


def parts(store: Any) -> list[Part]:
    """Return the one part of a store, by an encoder without a name."""
    return [Part()]


def read(store: Any) -> FeatureFile:
    """Read features and positions."""
    values = numbers(store, "features")
    if values.ndim == 4 and values.shape[2:] == (1, 1):  # a network without a pooling layer of its own
        values = values[:, :, 0, 0]
    features = to_features(values)
    if member(store, "coordinates") is None:
        return FeatureFile(features)
    boxes = numbers(store, "coordinates", sparse=True)
    if boxes.shape != (len(features), 4):
        raise ValueError(f"'coordinates' has shape {boxes.shape}, not ({len(features)}, 4)")
    sides = {(int(width), int(height)) for width, height in boxes[:, 2:] - boxes[:, :2]}
    if len(sides) != 1 or len({side for both in sides for side in both}) != 1 or min(min(sides)) < 1:
        raise ValueError("its patches are not squares of one size")
    return FeatureFile(features, side=min(min(sides)), places=to_places(boxes[:, :2], len(features)))
