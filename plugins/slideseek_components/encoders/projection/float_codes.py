"""Use the float codes of another encoder: read them, check them, split their inner products over patches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from slideseek.errors import NotAttributableError, SlideseekError
from slideseek.interfaces import Attributable, BatchEncoder, Encoder, implements
from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.normalise import length

_TOGETHER = 64
_VALUES = 2**23
"""Most bags encoded in one batch, and values of their codes (32 MiB): a batch of wide codes has fewer bags."""

_Item = TypeVar("_Item")


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


def batches(items: Iterable[_Item], size_of: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Yield items in order, as many at a time as are encoded together; size_of: the width of the code of one."""
    waiting: list[_Item] = []
    values = 0
    for item in items:
        waiting.append(item)
        values += size_of(item)
        if len(waiting) == _TOGETHER or values > _VALUES:
            yield waiting
            waiting, values = [], 0
    if waiting:
        yield waiting


def training_batches(
    bags: Sequence[Bag], which: Sequence[int], size_of: Callable[[int], int]
) -> Iterator[list[tuple[int, Bag]]]:
    """Yield (number, bag) of those slides `which` have patches, a few bags in memory at a time.

    size_of: the width of a code of features of this width. An archive's bags are loaded when they are needed.
    """
    loaded = ((i, bag) for i, bag in ((i, bags[i]) for i in which) if len(bag))
    yield from batches(loaded, lambda pair: size_of(pair[1].width))


def training_codes(part: Encoder, bags: Sequence[Bag], which: Sequence[int]) -> Iterator[tuple[int, Bag, Code]]:
    """Yield (number, bag, code) of those slides `which` have patches, a few bags in memory at a time."""
    for batch in training_batches(bags, which, lambda width: part.spec(width).width):
        for (i, bag), code in zip(batch, encode_all(part, [bag for _, bag in batch])):
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
        raise NotAttributableError(
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
