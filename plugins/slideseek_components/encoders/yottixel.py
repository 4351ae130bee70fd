"""Yottixel's barcodes: one row of bits per patch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.interfaces import Encoder
from slideseek.types import Bag, Code, CodeSpec, Float32, UInt8
from slideseek_components.encoders.bags import finite_features

_ROWS = 4096
"""Patches compared at a time: a large slide needs little memory in addition to its code."""


@dataclass
class Yottixel(Encoder):
    """Barcode every patch: bit i is 1 iff feature i + 1 is smaller than feature i.

    Kalra et al., "Yottixel: an image search engine for large archives of histopathology whole slide images"
    (Medical Image Analysis, 2020), as in its released code. A slide is the set of its barcodes, compared by
    the median over query patches of the minimum Hamming distance. Row i of the code is patch i of the bag, so
    matches can be shown.
    """

    code_revision: ClassVar[int] = 1

    def spec(self, width: int) -> CodeSpec:
        """Return sets of `width - 1` bits."""
        if width < 2:
            raise SlideseekError(
                f"a barcode compares neighbouring features and needs at least 2 of them, not {width}",
                "choose a featurizer with more features",
            )
        return CodeSpec("bits", width - 1, many=True)

    def encode(self, bag: Bag) -> Code:
        """Return one barcode per patch, uint8 (n, ceil((width - 1) / 8)), in the order of the patches."""
        features = finite_features(bag)
        self.spec(bag.width)
        return Code(bag.slide_id, barcodes(features))


def barcodes(features: Float32) -> UInt8:
    """Return one barcode per row of features, float32 (n, width): uint8 (n, ceil((width - 1) / 8))."""
    count, width = features.shape
    codes: UInt8 = np.empty((count, (width + 6) // 8), dtype=np.uint8)
    for start in range(0, count, _ROWS):
        rows = features[start : start + _ROWS]
        # Comparing instead of subtracting: the difference of two tiny or huge float32 can round to 0 or infinity.
        codes[start : start + _ROWS] = np.packbits(rows[:, 1:] < rows[:, :-1], axis=1)
    return codes
