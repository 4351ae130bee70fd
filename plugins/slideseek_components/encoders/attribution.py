"""Split a cosine similarity over patches, for codes that are a rescaled sum over patches."""

from __future__ import annotations

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.types import Bag, Code, Float64
from slideseek_components.encoders.normalise import length


def directions(bag: Bag, mine: Code, raw: Float64, other: Code) -> Float64:
    """Return float64 (width,) w such that, for per-patch parts p_t that sum to `raw`, sum_i p_ti w_i over patches
    adds up to the cosine of `mine` and `other`.

    Every value of such a code is `raw_i` times a factor that depends on the whole set (the root and the norm), so
    w_i = mine_i / raw_i * other_i / (|mine| |other|). `mine` is the stored float32 code, so the parts add up to the
    similarity an index sees.
    """
    check_comparable(bag, mine, other)
    a, b = _row(mine), _row(other)
    scale = length(a) * length(b)
    if scale == 0:
        return np.zeros_like(a)
    factor: Float64 = np.divide(a, raw, out=np.zeros_like(a), where=raw != 0)
    return factor * b / scale


def check_comparable(bag: Bag, mine: Code, other: Code) -> None:
    """Raise an error if `mine`, the code of `bag`, and `other` cannot be compared."""
    if other.rows.shape != mine.rows.shape or other.rows.dtype != mine.rows.dtype:
        raise SlideseekError(
            f"the code of slide {other.slide_id!r} is {other.rows.dtype} {other.rows.shape}, the code of "
            f"{bag.slide_id!r} is {mine.rows.dtype} {mine.rows.shape}",
            "compare only codes of the same encoder",
        )
    if other.space != mine.space:
        raise SlideseekError(
            f"slide {other.slide_id!r} is coded for {other.space!r} and slide {bag.slide_id!r} for {mine.space!r}",
            "compare slides of one site: conditioned codes are comparable only within a site",
        )


def _row(code: Code) -> Float64:
    row: Float64 = code.rows[0].astype(np.float64)
    return row
