"""Other stains and blur for real H&E pixels: test slides whose stain and focus are known.

The H&E is unmixed by colour deconvolution (Ruifrok and Johnston, Anal Quant Cytol Histol 23(4), 2001) and mixed again
with the colours of other stains. Their vectors are those of Landini's Colour Deconvolution for ImageJ (Landini,
Martinelli and Piccinini, Bioinformatics 37(10), 2021); DAB and its blue counterstain were measured on the IHC image of
scikit-image.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import ndimage

from slideseek.types import Float64, UInt8

HAEMATOXYLIN, EOSIN = (0.65, 0.70, 0.29), (0.07, 0.99, 0.11)

MIXTURES: Mapping[str, tuple[str, tuple[float, float, float], tuple[float, float, float], bool]] = {
    "dab": ("ihc", (0.70, 0.62, 0.35), (0.30, 0.50, 0.81), True),
    "dab-negative": ("ihc", (0.70, 0.62, 0.35), (0.70, 0.62, 0.35), False),
    "aec": ("ihc-red", (0.65, 0.70, 0.29), (0.27, 0.68, 0.68), True),
    "fast-red": ("ihc-red", (0.65, 0.70, 0.29), (0.21, 0.85, 0.48), True),
    "masson": ("special", (0.80, 0.59, 0.11), (0.10, 0.74, 0.67), False),
    "alcian-blue": ("special", (0.87, 0.46, 0.16), (0.55, 0.75, 0.12), False),
    "giemsa": ("special", (0.83, 0.51, 0.20), (0.83, 0.51, 0.20), False),
    "light-green": ("special", (0.46, 0.84, 0.28), (0.95, 0.25, 0.20), False),
    "silver": ("special", (0.58, 0.58, 0.57), (0.55, 0.58, 0.60), False),
}
"""By name: the stain a slide then has, the colours of counterstain and stain, and whether only some cells take it."""


GLASS, GLARE = 245.0, 10.0
"""Grey levels of glass, and of light that reaches the camera past any stain."""


def unmixed(rgb: UInt8) -> tuple[Float64, Float64]:
    """Return the amounts of haematoxylin and eosin, each float64 (h, w), of H&E uint8 (h, w, 3)."""
    stains = np.array([HAEMATOXYLIN, EOSIN, np.cross(HAEMATOXYLIN, EOSIN)])
    stains /= np.linalg.norm(stains, axis=1, keepdims=True)
    light = np.percentile(rgb.reshape(-1, 3), 99.5, axis=0) + 1
    density = np.maximum(-np.log10((rgb + 1.0) / light), 0)
    amounts = density @ np.linalg.inv(stains)
    return np.maximum(amounts[..., 0], 0), np.maximum(amounts[..., 1], 0)


def restain(rgb: UInt8, name: str, strength: float = 1.4, counter: float = 0.6, seed: int = 0) -> UInt8:
    """Return H&E pixels, uint8 (h, w, 3), as another of `MIXTURES` would show them, with the glare of a lens.

    strength: density of a chromogen in cells that take it, relative to what H&E had there. counter: the same for the
    counterstain. Brown over a strong blue is a dark grey.
    """
    _, first, second, partly = MIXTURES[name]
    h, e = (np.maximum(amount - 0.04, 0) for amount in unmixed(rgb))  # the tinge of glass is not a stain
    blue, stain = (np.array(v) / np.linalg.norm(v) for v in (first, second))
    if name == "dab-negative":
        density = (counter * h + 0.08 * e)[..., None] * blue
    elif partly:
        taken = positive_cells(rgb.shape[:2], seed) * strength * (h + 0.6 * e)
        density = counter * h[..., None] * blue + taken[..., None] * stain
    else:
        density = 0.9 * h[..., None] * blue + 0.9 * e[..., None] * stain
    seen: UInt8 = np.clip(GLARE + (GLASS - GLARE) * 10**-density + 0.5, 0, 255).astype(np.uint8)
    return seen


def positive_cells(shape: tuple[int, int], seed: int = 0) -> Float64:
    """Return where cells take a chromogen, float64 (h, w) from 0 to 1: about a third of the field, in groups."""
    rng = np.random.default_rng(seed)
    noise = sum(
        ndimage.gaussian_filter(rng.normal(size=shape), size) * size for size in (max(shape) / 25, max(shape) / 250)
    )
    cut = np.percentile(noise, 65)
    return np.asarray(np.clip((noise - cut) / (0.15 * np.std(noise)), 0, 1), dtype=np.float64)


def out_of_focus(rgb: UInt8, sigma: float) -> UInt8:
    """Return uint8 (h, w, 3) blurred by a Gaussian of `sigma` pixels."""
    if sigma <= 0:
        return rgb
    return np.asarray(np.rint(ndimage.gaussian_filter(rgb.astype(np.float32), (sigma, sigma, 0))), dtype=np.uint8)
