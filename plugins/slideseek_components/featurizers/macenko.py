"""The same H&E colours for every patch, whatever the laboratory and the scanner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from slideseek.interfaces import Described, Featurizer, Fingerprinted, Resizing, implements
from slideseek.types import FeaturizerCard, Float32, Float64, UInt8
from slideseek_components.featurizers.pixels import check_images

LIGHT = 245.0
"""Grey level of glass; optical densities are relative to it."""

FAINT = 0.15
"""Optical density (base e) below which a pixel shows no stain, as in the paper."""

EXTREME = 1.0
"""Percentile of the angles, from both ends, at which the two stains lie, as in the paper."""

STAINED = 0.05
"""Least share of stained pixels in a patch whose stains can be separated."""

APART = 0.15
"""Least angle in radians between the two stains: a patch of one stain has nothing to unmix."""

SAMPLE = 8192
"""Pixels from which the stains of a patch are estimated, evenly spread: more do not change the estimate."""

TARGET = ((0.56, 0.67, 0.46), (0.37, 0.88, 0.31))
"""Colours that haematoxylin and eosin get, directions of optical density in R, G, B: the median of real H&E slides."""

STRENGTH = (1.5, 0.86)
"""Optical density along these colours that the 99th percentile of each stain gets, of the same slides."""

_DENSITY = -np.log((np.arange(256, dtype=np.float32) + 1) / np.float32(LIGHT))


def normalised(image: UInt8) -> UInt8:
    """Return RGB uint8 (h, w, 3) with its two stains in the target colours; as it is if it has not got two."""
    density = _DENSITY[image.reshape(-1, 3)]
    some = density[:: max(1, len(density) // SAMPLE)].astype(np.float64)
    stains = _stains(some[some.min(axis=1) > FAINT], len(some))
    if stains is None:
        return image
    unmix = np.linalg.pinv(stains)
    most = np.percentile(np.maximum(some @ unmix, 0), 99, axis=0)
    if (most < FAINT).any():
        return image
    target = np.array(TARGET) / np.linalg.norm(TARGET, axis=1, keepdims=True) * (np.array(STRENGTH) / most)[:, None]
    amounts = np.maximum(density @ unmix.astype(np.float32), 0)
    light = np.float32(LIGHT) * np.exp(-amounts @ target.astype(np.float32))
    return np.asarray(np.clip(light + np.float32(0.5), 0, 255), dtype=np.uint8).reshape(image.shape)


def _stains(density: Float64, pixels: int) -> Float64 | None:
    """Return the directions of the two stains, float64 (2, 3), the bluer first; None if there are not two.

    density: optical densities (n, 3) of the stained of all pixels.
    """
    if len(density) < max(16, STAINED * pixels):
        return None
    _, axes = np.linalg.eigh(np.cov(density.T))
    plane = axes[:, 1:] * np.where(axes[:, 1:].sum(axis=0) < 0, -1, 1)  # the plane of the two largest variances
    place = density @ plane
    low, high = np.percentile(np.arctan2(place[:, 0], place[:, 1]), [EXTREME, 100 - EXTREME])
    if high - low < APART:
        return None
    both = np.array([[np.sin(angle), np.cos(angle)] for angle in (low, high)]) @ plane.T
    # Haematoxylin absorbs more red than eosin does.
    return np.asarray(both if both[0, 0] > both[1, 0] else both[::-1], dtype=np.float64)


@dataclass
class Macenko(Resizing, Described, Fingerprinted):
    """Normalise the stains of every H&E patch, then describe it by another featurizer.

    Macenko et al., "A method for normalizing histology slides for quantitative analysis", ISBI 2009: the stained pixels
    of a patch lie in the plane of two stains; the extreme directions in it are haematoxylin and eosin. Their amounts
    are kept, scaled to the same strength, and given the same colours in every patch. A patch without two stains is
    passed on as it is. IHC and special stains have other colours, and are not improved by it.

    of: the featurizer that describes the normalised patches.
    """

    code_revision: ClassVar[int] = 1

    of: Featurizer

    @property
    def width(self) -> int:
        """Length of one feature vector."""
        return self.of.width

    @property
    def side(self) -> int:
        """Side in pixels the inner featurizer resizes patches to, 0 if it takes them as they are."""
        return self.of.side if implements(self.of, Resizing) else 0

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, width)."""
        check_images(images)
        made = np.empty_like(images, order="C")
        for number, image in enumerate(images):
            made[number] = normalised(image)
        return self.of.featurize(made)

    def fingerprint(self) -> str:
        """Return what affects the output besides options: that of the inner featurizer."""
        return self.of.fingerprint() if implements(self.of, Fingerprinted) else "none"

    def card(self) -> FeaturizerCard:
        """Return what the inner featurizer expects."""
        if implements(self.of, Described):
            return replace(self.of.card())
        return FeaturizerCard(self.width, 256, 0.5, "", "", True)
