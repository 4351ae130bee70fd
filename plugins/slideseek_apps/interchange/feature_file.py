"""The content of a feature file from another tool, checked and converted to our types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.archive.features import MAX_ROWS, MAX_WIDTH
from slideseek.types import Float32, Float64, Int32

LARGEST = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class FeatureFile:
    """The features of one slide, the positions of the patches, and what the file states about them.

    features: float32 (n, width). xy: int32 (n, 2), top-left in level-0 pixels, None when the file has no coords.
    Zero means not stated. side: of a patch in pixels, at the resolution it was read at. extent: the same side in
    level-0 pixels. slide_mpp: µm per level-0 pixel. magnification: of level 0. mpp: float64 (n,), of each patch.
    places: float64 (n, 2), instead of xy: the same positions in another unit. unit: µm per such unit. whole: the one
    row of features describes the whole slide, not a patch. parts: widths of vectors by several encoders.
    """

    features: Float32
    xy: Int32 | None = None
    side: int = 0
    extent: float = 0.0
    slide_mpp: float = 0.0
    magnification: float = 0.0
    mpp: Float64 | None = None
    places: Float64 | None = None
    unit: float = 0.0
    whole: bool = False
    parts: tuple[int, ...] = ()

    @property
    def placed(self) -> bool:
        """Whether the file says where the patches are."""
        return self.xy is not None or self.places is not None


def unbatched(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without the leading axis of length one that some tools write: (1, n, d) is (n, d)."""
    return shape[1:] if len(shape) == 3 and shape[0] == 1 else shape


def check_features(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise `ValueError` when an array cannot be the features of a slide. The data need not be read."""
    flat = unbatched(shape)
    if len(flat) != 2 or not 1 <= flat[1] <= MAX_WIDTH or not 0 <= flat[0] <= MAX_ROWS:
        raise ValueError(f"'features' has shape {shape}, not (patches, width)")
    if flat[0] == 0:
        raise ValueError("it has no patches")
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise ValueError(f"'features' is {dtype}, not floats")


def check_coords(shape: tuple[int, ...], dtype: np.dtype[Any], rows: int) -> None:
    """Raise `ValueError` when an array cannot be the coords of `rows` features."""
    if unbatched(shape) != (rows, 2):
        raise ValueError(f"'coords' has shape {shape}, not ({rows}, 2)")
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise ValueError(f"'coords' is {dtype}, not numbers")


def to_features(array: NDArray[Any]) -> Float32:
    """Return features as float32 (n, width); half precision is widened exactly. NaN and infinity are rejected."""
    check_features(array.shape, array.dtype)
    flat = array.reshape(unbatched(array.shape))
    with np.errstate(over="ignore"):
        features = np.ascontiguousarray(flat, dtype=np.float32)
    finite = np.isfinite(features)
    if not finite.all():
        wrong = ~finite
        row = int(wrong.any(axis=1).argmax())
        raise ValueError(f"{int(wrong.sum()):,} of its values are not finite, the first in row {row}")
    return features


def is_vector(shape: tuple[int, ...], whole: bool = False) -> bool:
    """Return whether an array is one vector for a whole slide. whole: its layout says so; then (1, width) is one."""
    return len(shape) == 1 or (whole and len(shape) == 2 and shape[0] == 1)


def to_vector(array: NDArray[Any]) -> FeatureFile:
    """Return the vector of a whole slide, (width,) or (1, width), as the one row of a bag."""
    return FeatureFile(to_features(array.reshape(1, -1)), whole=True)


def to_places(array: NDArray[Any], rows: int) -> Float64:
    """Return positions in another unit than level-0 pixels as float64 (rows, 2)."""
    check_coords(array.shape, array.dtype, rows)
    places = np.ascontiguousarray(array.reshape(rows, 2), dtype=np.float64)
    if not np.isfinite(places).all():
        raise ValueError("'coords' are not finite")
    return places


def to_xy(array: NDArray[Any], rows: int) -> Int32:
    """Return coords as int32 (rows, 2). Whole numbers stored as floats are accepted, fractions of a pixel are not."""
    check_coords(array.shape, array.dtype, rows)
    flat = array.reshape(rows, 2)
    if flat.dtype.kind == "f" and not (np.isfinite(flat).all() and (flat == np.floor(flat)).all()):
        raise ValueError("'coords' are not whole level-0 pixels")
    if flat.size and (flat.min() < -LARGEST or flat.max() > LARGEST):
        raise ValueError("'coords' are outside any slide")
    return np.ascontiguousarray(flat, dtype=np.int32)
