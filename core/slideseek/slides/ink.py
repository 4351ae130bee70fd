"""Colours on a slide that are no tissue: marker pens, bubble rims, dirt."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from slideseek.types import Float32, Mask, UInt8


def pen_ink(rgb: UInt8) -> Mask:
    """Return bool (h, w), true on green, blue, red and black marker ink.

    The hues of haematoxylin (240 to 290 degrees) and eosin (300 to 355) are spared; red ink is told from blood by its
    purity.
    """
    hue, saturation, value = hsv(rgb)
    green = (hue > 70) & (hue < 190) & (saturation > 0.20)
    blue = (hue >= 190) & (hue < 236) & (saturation > 0.45)
    red = ((hue > 350) | (hue < 15)) & (saturation > 0.75) & (value > 0.45)
    black = (value < 0.25) & (saturation < 0.40)
    ink = ndimage.binary_opening(green | blue | red | black, iterations=1)
    return np.asarray(ndimage.binary_dilation(ink, iterations=2), dtype=np.bool_)


def black_debris(rgb: UInt8) -> Mask:
    """Return bool (h, w), true on grey to black without colour: rims of bubbles, dirt, edges of the cover slip."""
    _, saturation, value = hsv(rgb)
    white = max(0.5, float(np.percentile(value, 99)))
    return np.asarray((saturation < 0.10) & (value < 0.70 * white), dtype=np.bool_)


def hsv(rgb: UInt8) -> tuple[Float32, Float32, Float32]:
    """Return hue in degrees [0, 360), saturation and value in [0, 1], each float32 (h, w)."""
    r, g, b = (rgb[..., channel].astype(np.float32) for channel in range(3))
    value = np.maximum(np.maximum(r, g), b)
    delta = value - np.minimum(np.minimum(r, g), b)
    safe = np.where(delta == 0, 1.0, delta)
    hue = np.where(value == r, (g - b) / safe % 6.0, np.where(value == g, (b - r) / safe + 2.0, (r - g) / safe + 4.0))
    return (
        (60.0 * hue).astype(np.float32),
        (delta / np.maximum(value, 1.0)).astype(np.float32),
        (value / 255.0).astype(np.float32),
    )
