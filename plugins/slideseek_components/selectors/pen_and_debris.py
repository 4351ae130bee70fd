"""Coloured or dark areas that are not tissue: pen marks, rims of bubbles, dirt."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from slideseek.types import Mask, UInt8
from slideseek_components.selectors.pixel_colours import hsv, roughness, smoothed

_FLAT = 1.5
"""Variation in grey levels of a film of ink on glass; tissue varies by 3 to 10."""

_STROKE_SHARE = 0.08
"""Largest width of a stroke, as a share of the longer side."""


def pen_ink(rgb: UInt8) -> Mask:
    """Return bool (h, w), true on green, blue, red and black marker ink.

    Green to cyan is not a stain of tissue. Blue and red are ink where they are purer than haematoxylin (hue 240 to 290)
    and eosin (300 to 350) ever are, or where a thinner colour is flat, as only a film on glass is. A stroke thin
    enough to show the tissue below counts as tissue.
    """
    hue, saturation, value = hsv(rgb)
    flat = roughness(smoothed(rgb), 3) < _FLAT
    green = (hue > 70) & (hue < 190) & (saturation > 0.20)
    bluish = (hue >= 190) & (hue < 240)
    blue = bluish & (hue < 236) & (saturation > 0.45)
    reddish = (hue > 352) | (hue < 15)
    red = reddish & (saturation > 0.75) & (value > 0.45)
    black = (value < 0.25) & (saturation < 0.40)
    thin = (bluish & (saturation > 0.20)) | (reddish & (saturation > 0.30))
    ink = ndimage.binary_opening(green | blue | red | black)
    film = ndimage.binary_opening(thin & flat)
    if film.any():
        # A film is flat only in its middle: grow through the same colours, at most by its blurred edge.
        ink |= ndimage.binary_dilation(film, iterations=4, mask=thin) & ~_lakes(np.asarray(thin, dtype=np.bool_))
    return np.asarray(ndimage.binary_dilation(ink, iterations=2), dtype=np.bool_)


def _lakes(colour: Mask) -> Mask:
    """Return where a colour is much wider than a marker's tip: there it is blood or stain, not a stroke."""
    radius = _STROKE_SHARE * max(colour.shape) / 2
    depth = ndimage.distance_transform_edt(ndimage.binary_closing(np.pad(colour, 2, mode="edge"), iterations=2))
    core = depth[2:-2, 2:-2] > radius
    if not core.any():
        return np.zeros_like(colour)
    return np.asarray(ndimage.distance_transform_edt(~core) <= radius, dtype=np.bool_)


def black_debris(rgb: UInt8) -> Mask:
    """Return bool (h, w), true on grey to black without colour: rims of bubbles, dirt, edges of the cover slip."""
    _, saturation, value = hsv(rgb)
    white = max(0.5, float(np.percentile(value, 99)))
    dark = (saturation < 0.10) & (value < 0.70 * white)
    # The edge of something black is grey, and lighter than the limit.
    return np.asarray(ndimage.binary_dilation(dark, iterations=2), dtype=np.bool_)
