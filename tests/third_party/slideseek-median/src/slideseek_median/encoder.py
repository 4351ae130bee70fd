"""The encoder `median-sign`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from safetensors.numpy import load_file, save_file

from slideseek.errors import EmptyBagError, NotFittedError, SlideseekError
from slideseek.interfaces import Trainable
from slideseek.types import Bag, Code, CodeSpec, Float64


@dataclass
class MedianSign(Trainable):
    """Encode with one bit per feature whether the slide is above the median training slide.

    quantile: position of the threshold among the training slides; 0.5 is their median.
    """

    code_revision: ClassVar[int] = 1

    quantile: float = 0.5
    thresholds_: Float64 | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile: above 0 and below 1, not {self.quantile}")

    def spec(self, width: int) -> CodeSpec:
        """Return one row of `width` bits."""
        return CodeSpec("bits", width)

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Learn one threshold per feature; labels and patients are not used."""
        means = [self._mean(bag) for bag in bags]
        self.thresholds_ = np.quantile(means, self.quantile, axis=0)

    def encode(self, bag: Bag) -> Code:
        """Return uint8 (1, ceil(width / 8)): bit i is 1 if feature i is above its threshold."""
        if self.thresholds_ is None:
            raise NotFittedError("median-sign")
        if bag.width != len(self.thresholds_):
            raise SlideseekError(
                f"slide {bag.slide_id!r} has {bag.width} features, the encoder was fitted on {len(self.thresholds_)}",
                "fit it again",
            )
        bits = self._mean(bag) > self.thresholds_
        return Code(bag.slide_id, np.packbits(bits[None], axis=1))

    def save(self, folder: Path) -> None:
        """Write the thresholds."""
        if self.thresholds_ is None:
            raise NotFittedError("median-sign")
        save_file({"thresholds": self.thresholds_}, folder / "thresholds.safetensors")

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        self.thresholds_ = load_file(folder / "thresholds.safetensors")["thresholds"]

    def _mean(self, bag: Bag) -> Float64:
        """Return the mean feature, float64 (width,), with the same bits for any order of the patches."""
        if len(bag) == 0:
            raise EmptyBagError(bag.slide_id)
        if not np.isfinite(bag.features).all():
            raise SlideseekError(f"slide {bag.slide_id!r} has NaN or infinite features", "compute them again")
        # Sorted first: the last bit of a float sum depends on the order, and a sign near 0 on that bit.
        return np.asarray(np.sort(bag.features.astype(np.float64), axis=0).mean(axis=0))
