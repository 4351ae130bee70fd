"""A bag as an encoder takes it: its numbers checked, its patches in an order that depends on the set of them alone.

Floating-point addition is not associative, so a sum over patches depends on their order in its last bits, and the
sign of a value near zero with it. Sums taken in the canonical order are the same bits however the patches arrive.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.types import Bag, Float32, Float64, Int64

_CHECKED = 4096
"""Rows checked at a time, so that a memory-mapped bag is never read whole."""

CHUNK = 256
"""Rows summed at a time. Fixed: another value would be another order of additions, so it is not an option."""


def finite_features(bag: Bag, width: int | None = None) -> Float32:
    """Return the features of `bag`, float32 (n, width), after checking that an encoder can use them.

    Raise `EmptyBagError` for no patches and `SlideseekError` naming the slide for NaN or infinite values, or for
    another width than the one an encoder was fitted on. A memory-mapped bag is read piece by piece.
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
                "compute its features again, or leave the slide out",
            )
    return bag.features


def canonical_order(features: Float32) -> Int64:
    """Return the int64 (n,) row order that sorts the rows of `features` by their bytes.

    Rows that tie are identical, so which of them comes first changes no sum. Rows are compared in place: a
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
    """Return the float64 (width,) sum of the rows, the same bits whatever their order."""
    total = np.zeros(features.shape[1], dtype=np.float64)
    for _, rows in canonical_chunks(features):
        total += rows.astype(np.float64).sum(axis=0)
    return total
