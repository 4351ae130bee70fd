"""A bag as encoders use it: checked values, and patches in an order that depends only on the set of patches.

Floating-point addition is not associative, so the last bits of a sum over patches, and the sign of a value near zero,
depend on their order. Sums in the canonical order have the same bits for any order of the patches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.types import Bag, Float32, Float64, Int64

_CHECKED = 4096
"""Rows checked at a time; a memory-mapped bag is never read whole."""

CHUNK = 256
"""Rows summed at a time. Not an option: another value would change the order of additions."""


def finite_features(bag: Bag, width: int | None = None) -> Float32:
    """Return the features of `bag`, float32 (n, width), after checking that an encoder can use them.

    Raise `EmptyBagError` for no patches, and `SlideseekError` with the slide for NaN or infinite values or for a width
    other than the one the encoder was fitted on. A memory-mapped bag is read piece by piece.
    """
    if len(bag) == 0:
        raise EmptyBagError(bag.slide_id)
    if bag.width == 0:
        raise SlideseekError(f"slide {bag.slide_id!r} has features of width 0", "compute its features again")
    if width is not None and bag.width != width:
        raise SlideseekError(
            f"slide {bag.slide_id!r} has features of width {bag.width}, the encoder was fitted on width {width}",
            "encode with the featurizer the encoder was fitted with, or fit it again",
        )
    for start in range(0, len(bag), _CHECKED):
        rows = bag.features[start : start + _CHECKED]
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            raise SlideseekError(
                f"slide {bag.slide_id!r} has NaN or infinite features, first in patch {start + int(bad.argmax())}",
                "compute its features again, or exclude the slide",
            )
    return bag.features


def canonical_order(features: Float32) -> Int64:
    """Return the int64 (n,) row order that sorts the rows of `features` by their bytes.

    Tied rows are identical, so their order changes no sum. Rows are compared in place: a
    memory-mapped array is not copied.
    """
    rows = np.ascontiguousarray(features)
    keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def canonical_rows(features: Float32) -> Iterator[Int64]:
    """Yield the row numbers of `features` in canonical order, `CHUNK` rows at a time."""
    order = canonical_order(features)
    for start in range(0, len(order), CHUNK):
        yield order[start : start + CHUNK]


def canonical_chunks(features: Float32) -> Iterator[tuple[Int64, Float32]]:
    """Yield (row numbers, rows) of `features` in canonical order, `CHUNK` rows at a time."""
    for rows in canonical_rows(features):
        yield rows, features[rows]


def canonical_sum(features: Float32) -> Float64:
    """Return the float64 (width,) sum of the rows, with the same bits for any order."""
    total = np.zeros(features.shape[1], dtype=np.float64)
    for _, rows in canonical_chunks(features):
        total += rows.astype(np.float64).sum(axis=0)
    return total
