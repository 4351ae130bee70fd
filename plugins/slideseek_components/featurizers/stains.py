"""Haematoxylin and eosin by colour deconvolution: Ruifrok and Johnston, Anal Quant Cytol Histol 23(4), 2001."""

from __future__ import annotations

import numpy as np

from slideseek.types import Float32, Float64

HAEMATOXYLIN = (0.65, 0.70, 0.29)
EOSIN = (0.07, 0.99, 0.11)


def _unmixing() -> Float64:
    """Return float64 (2, 3): the matrix from optical densities of R, G, B to amounts of the two stains."""
    stains = np.array([HAEMATOXYLIN, EOSIN, np.cross(HAEMATOXYLIN, EOSIN)])
    stains /= np.linalg.norm(stains, axis=1, keepdims=True)
    return np.asarray(np.linalg.inv(stains)[:, :2].T, dtype=np.float64)


def stain_table() -> Float32:
    """Return float32 (2, 3, 256): the share of each value of R, G and B in the amounts of haematoxylin and eosin.

    The amount of a stain in a pixel is the sum of its three shares, in optical density (base 10) along the
    colour of the stain. White is 0; a colour that the two stains cannot mix may give a negative amount.
    """
    density = -np.log10((np.arange(256) + 1) / 256)
    return (_unmixing()[:, :, None] * density).astype(np.float32)
