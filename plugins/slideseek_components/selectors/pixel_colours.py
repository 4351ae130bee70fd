"""Colour and texture of a thumbnail, pixel by pixel.

Images are split into planes (3, h, w): sums and extremes over a last axis of three are ten times slower.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from slideseek.types import Float32, UInt8

Hsv: TypeAlias = tuple[Float32, Float32, Float32]
"""What `hsv` returns."""


def hsv(rgb: UInt8) -> Hsv:
    """Return hue in degrees [0, 360), saturation and value in [0, 1], each float32 (h, w), of uint8 (h, w, 3)."""
    planes: Float32 = np.moveaxis(rgb, 2, 0).astype(np.float32)
    r, g, b = planes
    value, low = extremes(planes)
    delta = value - low
    safe = np.where(delta == 0, np.float32(1), delta)
    hue = np.where(value == r, (g - b) / safe % 6, np.where(value == g, (b - r) / safe + 2, (r - g) / safe + 4))
    saturation = delta / np.maximum(value, 1)
    return np.asarray(60 * hue, np.float32), np.asarray(saturation, np.float32), np.asarray(value / 255, np.float32)


def smoothed(rgb: UInt8) -> Float32:
    """Return the planes (3, h, w) of uint8 (h, w, 3) as float32, without the noise of single pixels."""
    planes = np.moveaxis(rgb, 2, 0).astype(np.float32)
    return np.asarray(ndimage.gaussian_filter(planes, (0.0, 1.0, 1.0), truncate=3.0), dtype=np.float32)


def extremes(planes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the largest and the smallest channel of every pixel, both (h, w)."""
    r, g, b = planes
    return np.maximum(np.maximum(r, g), b), np.minimum(np.minimum(r, g), b)


def grey(planes: NDArray[Any]) -> Float32:
    """Return the mean of the channels, float32 (h, w)."""
    r, g, b = planes
    return np.asarray((r.astype(np.float32) + g + b) / np.float32(3), dtype=np.float32)


def roughness(planes: Float32, window: int = 7) -> Float32:
    """Return the standard deviation of grey levels within a square window, float32 (h, w)."""
    # Centred first: otherwise the difference of two large squares loses float32 precision.
    level = grey(planes) - np.float32(200)
    mean = ndimage.uniform_filter(level, window)
    variance = ndimage.uniform_filter(level**2, window) - mean**2
    return np.asarray(np.sqrt(np.maximum(variance, 0)), dtype=np.float32)
