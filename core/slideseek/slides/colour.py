"""Colour and texture of a thumbnail, pixel by pixel."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from slideseek.types import Float32, UInt8


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


def smoothed(rgb: UInt8) -> Float32:
    """Return the image as float32 (h, w, 3) without the noise of single pixels."""
    return np.asarray(ndimage.gaussian_filter(rgb.astype(np.float32), (1.0, 1.0, 0.0)), dtype=np.float32)


def roughness(smooth: Float32, window: int = 7) -> Float32:
    """Return the standard deviation of grey levels within a square window, float32 (h, w); `smooth` is (h, w, 3)."""
    grey = smooth.mean(axis=2)
    mean = ndimage.uniform_filter(grey, window)
    return np.asarray(np.sqrt(np.maximum(ndimage.uniform_filter(grey**2, window) - mean**2, 0.0)), dtype=np.float32)
