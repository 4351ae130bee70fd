"""What every encoder asks of a bag before it reads a number from it."""

from __future__ import annotations

import numpy as np

from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.types import Bag, Float32

_ROWS = 4096


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
    for start in range(0, len(bag), _ROWS):
        rows = bag.features[start : start + _ROWS]
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            raise SlideseekError(
                f"slide {bag.slide_id!r} has NaN or infinite features, first in patch {start + int(bad.argmax())}",
                "compute its features again, or leave the slide out",
            )
    return bag.features
