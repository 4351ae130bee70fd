"""Use the float codes of another encoder: read them, check them, split their inner products over patches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.interfaces import Attributable, BatchEncoder, Encoder, implements
from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.normalise import length

_TOGETHER = 64
"""Bags encoded in one batch; an archive's bags are loaded when they are needed."""


def float_spec(part: Encoder, width: int, name: str) -> CodeSpec:
    """Return the format of the codes of `part`; raise an error unless they are one row of floats."""
    spec = part.spec(width)
    if spec.kind == "bits" or spec.many:
        raise SlideseekError(
            f"{name} needs an encoder with one row of floats per slide, {title(part)} gives {spec}",
            "use a float encoder such as mean, gmm-fv or deep-fv",
        )
    return spec


def title(part: Encoder) -> str:
    """Return how a message names an encoder."""
    return str(getattr(part, "name", type(part).__name__))


def encode_all(part: Encoder, bags: Sequence[Bag]) -> list[Code]:
    """Return the codes of `part`, in one batch if it takes several; NaN or infinite values are an error."""
    codes = part.encode_many(bags) if implements(part, BatchEncoder) else [part.encode(bag) for bag in bags]
    for code in codes:
        if not np.isfinite(code.rows).all():
            raise SlideseekError(
                f"the code of slide {code.slide_id!r} by {title(part)} has NaN or infinite values",
                "compute its features again, or exclude the slide",
            )
    return codes


def training_codes(part: Encoder, bags: Sequence[Bag], which: Sequence[int]) -> Iterator[tuple[int, Bag, Code]]:
    """Yield (number, bag, code) of those slides `which` have patches, a few bags in memory at a time."""
    for start in range(0, len(which), _TOGETHER):
        loaded = [(i, bags[i]) for i in which[start : start + _TOGETHER]]
        loaded = [(i, bag) for i, bag in loaded if len(bag)]
        for (i, bag), code in zip(loaded, encode_all(part, [bag for _, bag in loaded])):
            yield i, bag, code


def values_of(code: Code) -> Float64:
    """Return the values of a code of one row, float64 (width,)."""
    values: Float64 = code.rows[0].astype(np.float64)
    return values


def split_product(part: Encoder, bag: Bag, code: Code, weights: Float64) -> Float64:
    """Split the inner product of `code`, the code of `bag` by `part`, and `weights` over the patches: float64 (n,).

    `part` splits a cosine, so the product is that cosine times the two lengths. `weights` (width,) are rounded to
    float32, as a code is: the parts add up to the product except for that rounding.
    """
    if not implements(part, Attributable):
        raise SlideseekError(
            f"{title(part)} cannot split a similarity over patches",
            "use encoders that can, such as mean, gmm-fv or deep-fv",
        )
    scale = float(np.abs(weights).max(initial=0.0))
    if scale == 0:
        return np.zeros(len(bag))
    towards = Code("weights", (weights / scale).astype(np.float32)[None], code.space)
    return part.contributions(bag, towards) * (length(values_of(code)) * length(values_of(towards)) * scale)


def share_rest(parts: Float64, total: float) -> Float64:
    """Add to every part the same amount, so that they add up to `total`: what belongs to no patch in particular."""
    return parts + (total - float(parts.sum())) / len(parts)
