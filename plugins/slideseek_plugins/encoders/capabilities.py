"""What an encoder may be able to do besides encoding one bag. Each capability is a protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from slideseek.interfaces import Encoder, Trainable
from slideseek.types import Bag, Code, Float64

Progress: TypeAlias = Callable[[Mapping[str, float]], None]
"""Called once an epoch with `epoch`, `epochs` and the epoch's losses."""


@runtime_checkable
class Attributable(Encoder, Protocol):
    """An encoder that can say which patches make a slide similar to another."""

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the similarity of `bag` to `code` over the patches of `bag`: float64 (n,), in patch order.

        The parts add up to the similarity of `encode(bag)` and `code`: their cosine for floats, the share of equal
        bits for bits. A part is negative where a patch makes the slides less alike.
        """
        ...


@runtime_checkable
class BatchEncoder(Encoder, Protocol):
    """An encoder that codes many small bags faster together than one by one."""

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        """Return exactly `[encode(bag) for bag in bags]`."""
        ...


@runtime_checkable
class Checkpointed(Trainable, Protocol):
    """An encoder whose training survives being killed."""

    def fit_in(
        self,
        folder: Path,
        bags: Sequence[Bag],
        labels: Sequence[str],
        groups: Sequence[str],
        progress: Progress | None = None,
    ) -> None:
        """Learn as `fit` does, keeping a checkpoint in the existing `folder` after every epoch.

        A checkpoint of the same options and the same training slides that is already there is continued, with
        the same result to the last bit as if training had never stopped; one of others is an error. The
        training log stays in `folder`.
        """
        ...
