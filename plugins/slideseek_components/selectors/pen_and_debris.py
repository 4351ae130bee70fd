"""Coloured or dark areas that are not tissue: pen marks, rims of bubbles, dirt."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from slideseek.types import Float32, Mask, UInt8
from slideseek_components.selectors.pixel_colours import Hsv, hsv, roughness, smoothed

_FLAT = 1.5
"""Variation in grey levels of a film of ink on glass; tissue varies by 3 to 10."""

_STROKE_SHARE = 0.08
"""Largest width of a stroke, as a share of the longer side."""

_BROWN_SHARE = 0.02
"""Least share of the coloured pixels that is brown on a slide with DAB; less is pigment or old blood."""

_CELLS = 8
"""Pixels around one in which brown and blue cells count as its neighbours."""


def pen_ink(rgb: UInt8, colours: Hsv | None = None) -> Mask:
    """Return bool (h, w), true on green, blue, red and black marker ink. colours: of `hsv`, if they are known.

    Green to cyan is not a stain of tissue. Blue and red are ink where they are purer than haematoxylin (hue 240 to 290)
    and eosin (300 to 350) ever are, or where a thinner colour is flat, as only a film on glass is. A stroke thin
    enough to show the tissue below counts as tissue.
    """
    hue, saturation, value = colours or hsv(rgb)
    flat = roughness(smoothed(rgb), 3) < _FLAT
    green = (hue > 70) & (hue < 190) & (saturation > 0.20)
    bluish = (hue >= 190) & (hue < 240)
    blue = bluish & (hue < 236) & (saturation > 0.45)
    reddish = (hue > 352) | (hue < 15)
    red = reddish & (saturation > 0.75) & (value > 0.45)
    black = (value < 0.25) & (saturation < 0.40) & ~_dark_chromogen(rgb, hue, saturation)
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


def black_debris(rgb: UInt8, colours: Hsv | None = None) -> Mask:
    """Return bool (h, w), true on grey to black without colour: rims of bubbles, dirt, edges of the cover slip.

    Dark DAB is tissue. colours: of `hsv`, if they are known.
    """
    hue, saturation, value = colours or hsv(rgb)
    white = max(0.5, float(np.percentile(value, 99)))
    dark = (saturation < 0.10) & (value < 0.70 * white)
    chromogen = _dark_chromogen(rgb, hue, saturation)
    if chromogen.any():
        return np.asarray(ndimage.binary_dilation(dark & ~chromogen, iterations=2) & ~chromogen, dtype=np.bool_)
    # The edge of something black is grey, and lighter than the limit.
    return np.asarray(ndimage.binary_dilation(dark, iterations=2), dtype=np.bool_)


def _dark_chromogen(rgb: UInt8, hue: Float32, saturation: Float32) -> Mask:
    """Return bool (h, w), true on and around the brown of DAB, and nowhere on a slide that has little brown.

    Brown over a blue counterstain is grey, and dark where both are strong: its colour alone is that of dirt. Unlike
    dirt it lies between brown and blue cells.
    """
    red, green, blue = (rgb[..., channel].astype(np.int16) for channel in range(3))
    brown = (hue > 8) & (hue < 60) & (saturation > 0.08) & (red - blue >= 8) & (green > blue)
    bluish = (hue > 190) & (hue < 270) & (saturation > 0.08)
    if np.count_nonzero(brown) < _BROWN_SHARE * np.count_nonzero(saturation > 0.08):
        return np.zeros_like(brown)
    window = 2 * _CELLS + 1
    coloured = ndimage.uniform_filter((brown | bluish).astype(np.float32), window)
    near = ndimage.uniform_filter(brown.astype(np.float32), window)
    return np.asarray((near > 0.005) & (coloured > 0.1), dtype=np.bool_)
