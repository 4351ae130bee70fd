"""Hand-crafted descriptors of colour, stain and texture: no weights, no training, fast on one core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.interfaces import Described, Fingerprinted, Resizing
from slideseek.types import FeaturizerCard, Float32, Float64, Int64, UInt8
from slideseek_components.featurizers.pixel_counts import (
    HUES,
    LEVELS,
    PATTERNS,
    SLOPES,
    count_colours,
    count_patterns,
    count_slopes,
    halve,
    planes,
)
from slideseek_components.featurizers.pixels import check_images, resize

REVISION = 1
"""Revision of the descriptors: increase it when their values change."""

SCALES = 4
WIDTH = HUES + 4 * LEVELS + (LEVELS // 2) ** 2 + SCALES * (2 * PATTERNS + SLOPES)


@dataclass
class ColourTexture(Resizing, Described, Fingerprinted):
    """Describe a patch by histograms of its colours, its stains and its texture at four scales.

    Hue, saturation and value; haematoxylin and eosin (Ruifrok and Johnston 2001), each and jointly;
    rotation-invariant uniform local binary patterns (Ojala, Pietikäinen and Mäenpää 2002) of brightness and of
    haematoxylin and the strength of the edges of brightness, on the patch and on its halvings down to 1/8.
    A histogram contains the square roots of shares: it has unit length (or is zero if nothing was counted),
    and the Euclidean distance between two is their Hellinger distance up to a factor. Quarter turns and mirror
    images do not change the features of a patch if its side is a multiple of 8.

    side: resize patches to this side first, in pixels; 0 takes them as they are.
    """

    code_revision: ClassVar[int] = 1

    side: int = 0

    def __post_init__(self) -> None:
        if self.side and not 8 <= self.side <= 4096:
            raise ValueError(f"side: 0 or 8 to 4096 pixels, not {self.side}")

    @property
    def width(self) -> int:
        """Length of one feature vector."""
        return WIDTH

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, width)."""
        check_images(images)
        rows = np.empty((len(images), WIDTH), dtype=np.float32)
        for row, image in zip(rows, images, strict=True):
            row[:] = _describe(np.ascontiguousarray(resize(image, self.side or image.shape[0])))
        return rows

    def fingerprint(self) -> str:
        """Return the revision of the descriptors."""
        return f"colour-texture r{REVISION}"

    def card(self) -> FeaturizerCard:
        """Return what the featurizer expects; it needs no weights."""
        return FeaturizerCard(WIDTH, self.side or 256, 0.5, "Apache-2.0", "", True)


def _describe(image: UInt8) -> Float64:
    hue, saturation, value, stains = count_colours(image)
    half = LEVELS // 2
    coarse = stains.reshape(half, 2, half, 2).sum((1, 3)).ravel()
    parts: list[Float64 | Int64] = [hue, saturation, value, stains.sum(1), stains.sum(0), coarse]
    brightness, haematoxylin = planes(image)
    for scale in range(SCALES):
        if scale:
            brightness, haematoxylin = halve(brightness), halve(haematoxylin)
        parts += [count_patterns(brightness), count_patterns(haematoxylin), count_slopes(brightness)]
    return np.concatenate([np.sqrt(part / max(part.sum(), 1)) for part in parts])
