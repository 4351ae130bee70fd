"""Find tissue on a thumbnail: glass, pen, dust and bubbles left out, pale tissue kept.

Masks come from colours and shares of the image, so the same options serve thumbnails of any size.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy import ndimage

from slideseek.slides.ink import black_debris, hsv, pen_ink
from slideseek.types import Float32, Mask, UInt8

TissueMethod: TypeAlias = Literal["hsv-otsu", "yottixel-hsd", "fluorescence"]

SPECK_UM2 = 20_000.0
"""Area below which an isolated object is dust, where the resolution is known: a disc of 160 µm."""

HOLE_UM2 = 40_000.0
"""Area below which a gap enclosed by tissue belongs to it (lumina, small tears)."""

_SHADOW_DENSITY = 0.08
_GLASS_SIGNAL = 0.045
_GLASS_NOISE = (0.015, 0.045)
_MAX_SPLITS = 4
_MAX_TINT = 0.15
_MAX_TINT_HUE = 200.0
_PADDED_SHARE = 0.002
_SPECK_SHARE = 1e-4
_HOLE_SHARE = 5e-4


def tissue_mask(
    rgb: UInt8,
    method: TissueMethod = "hsv-otsu",
    exclude_pen: bool = True,
    *,
    exclude_debris: bool = True,
    mpp: float | None = None,
) -> Mask:
    """Return bool (h, w), true where a thumbnail shows tissue.

    rgb: uint8 (h, w, 3). exclude_pen: leave out marker ink. exclude_debris: leave out black rims of bubbles and specks of
    dust. mpp: µm per pixel of the thumbnail; specks and holes are then measured in µm², else as a share of the image.
    """
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3:
        raise ValueError(f"rgb: uint8 (h, w, 3), not {rgb.dtype} {rgb.shape}")
    if method not in get_args(TissueMethod):
        raise ValueError(f"method: one of {', '.join(get_args(TissueMethod))}, not {method!r}")
    if 0 in rgb.shape:
        return np.zeros(rgb.shape[:2], dtype=np.bool_)
    area = rgb.shape[0] * rgb.shape[1]
    speck = SPECK_UM2 / mpp**2 if mpp else _SPECK_SHARE * area
    hole = HOLE_UM2 / mpp**2 if mpp else _HOLE_SHARE * area
    if method == "fluorescence":
        return _tidy(_bright_on_dark(rgb), speck if exclude_debris else 0.0, hole)
    mask = _stained(rgb) if method == "hsv-otsu" else _hsd(rgb)
    if exclude_debris:
        mask &= ~black_debris(rgb)
    mask = _tidy(mask, speck if exclude_debris else 0.0, hole)
    # Ink goes last: a stroke across tissue must not be filled like a hole.
    return mask & ~pen_ink(rgb) if exclude_pen else mask


def _stained(rgb: UInt8) -> Mask:
    """Threshold saturation, helped by optical density, just above the glass of this slide."""
    smooth = _blur(rgb, 1.0) / _tint(rgb)
    high, low = smooth.max(axis=2), smooth.min(axis=2)
    saturation = (high - low) / np.maximum(high, 1.0)
    density = -np.log10((np.minimum(smooth.mean(axis=2), 255.0) + 1.0) / 256.0)
    # Grey shadows on glass have some density and no colour: density counts only where it is real darkness.
    signal = np.asarray(saturation + 0.5 * np.maximum(density - _SHADOW_DENSITY, 0.0), dtype=np.float32)
    # Pure white is what scanners and converters fill the canvas with: it says nothing about the glass.
    scanned = signal[rgb.min(axis=2) < 254]
    if scanned.size < _PADDED_SHARE * signal.size:
        return np.zeros(signal.shape, dtype=np.bool_)
    return np.asarray(signal > _above_glass(scanned), dtype=np.bool_)


def _above_glass(signal: Float32) -> float:
    """Return the threshold between glass and tissue for the signal of all scanned pixels (n,).

    Otsu's split alone lands in the middle of a strong stain and loses pale tissue, so the lower class is split again until
    it is as colourless as glass; the threshold lies above the noise of that class (JPEG gives glass near tissue a tinge).
    A slide without such a class is full of tissue; on empty glass nothing exceeds the noise.
    """
    pool = signal
    for _ in range(_MAX_SPLITS):
        split = otsu(pool)
        pool = pool[pool <= split]
        middle = float(np.median(pool))
        if middle <= _GLASS_SIGNAL:
            spread = 1.4826 * float(np.median(np.abs(pool - middle)))
            noise = max(float(np.percentile(pool, 95)) - middle, 5.0 * spread)
            return max(middle + _GLASS_NOISE[0], min(split, middle + noise, middle + _GLASS_NOISE[1]))
    return _GLASS_SIGNAL


def _tint(rgb: UInt8) -> Float32:
    """Return the colour of tinted glass, float32 (3,) with 1 as its largest value; white glass gives ones.

    Glass is bright and flat where tissue is textured. A blue to pink tinge is mucin or pale
    tissue, never the lamp.
    """
    grey = rgb.mean(axis=2, dtype=np.float32)
    mean = ndimage.uniform_filter(grey, 5)
    deviation = np.sqrt(np.maximum(ndimage.uniform_filter(grey**2, 5) - mean**2, 0.0))
    flat = (deviation < 2.0) & (grey > 0.8 * np.percentile(grey, 99)) & (rgb.min(axis=2) < 254)
    if np.count_nonzero(flat) < _PADDED_SHARE * grey.size:
        return np.ones(3, dtype=np.float32)
    colour = np.median(rgb[flat], axis=0).astype(np.float32)
    hue, saturation, _ = (float(part[0, 0]) for part in hsv(colour.round().astype(np.uint8)[None, None]))
    if saturation > _MAX_TINT or hue > _MAX_TINT_HUE:
        return np.ones(3, dtype=np.float32)
    return np.asarray(colour / colour.max(), dtype=np.float32)


def _hsd(rgb: UInt8) -> Mask:
    """Threshold the chroma of the hue-saturation-density transform after leaving out neutral colours."""
    levels = np.maximum(rgb.astype(np.float32), 1.0) / 255.0
    density = -np.log(levels)
    mean = np.maximum(density.mean(axis=2), 1e-3)
    chroma = np.hypot(density[..., 0] / mean - 1.0, (density[..., 1] - density[..., 2]) / (np.sqrt(3.0) * mean))
    coloured = rgb.astype(np.float32).std(axis=2) >= 5.0
    side = max(1, round(0.01 * max(rgb.shape[:2])))
    smooth = ndimage.uniform_filter(np.where(coloured, chroma, 0.0).astype(np.float32), side)
    return np.asarray(coloured & (smooth >= 0.05), dtype=np.bool_)


def _bright_on_dark(rgb: UInt8) -> Mask:
    """Otsu on brightness, with a floor so that a black slide stays empty."""
    value = _blur(rgb, 1.0).max(axis=2)
    return np.asarray(value > max(otsu(value.ravel()), 8.0), dtype=np.bool_)


def otsu(values: Float32, bins: int = 256) -> float:
    """Return the threshold that best splits values into two classes; the largest value when they are all equal."""
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-9:
        return high
    counts, edges = np.histogram(values, bins=bins, range=(low, high))
    centres = (edges[:-1] + edges[1:]) / 2
    weight = np.cumsum(counts)[:-1]
    rest = counts.sum() - weight
    total = np.cumsum(counts * centres)
    below = total[:-1] / np.maximum(weight, 1)
    above = (total[-1] - total[:-1]) / np.maximum(rest, 1)
    return float(edges[1:-1][int(np.argmax(weight * rest * (below - above) ** 2))])


def _tidy(mask: Mask, speck: float, hole: float) -> Mask:
    """Fill enclosed gaps smaller than `hole` and drop objects smaller than `speck` (areas in pixels)."""
    return drop_small(~drop_small(~mask, hole), speck)


def drop_small(mask: Mask, area: float) -> Mask:
    """Return the mask without its 8-connected objects of less than `area` pixels."""
    labels, count = ndimage.label(mask, structure=np.ones((3, 3), dtype=np.int8))
    if not count:
        return mask
    sizes = np.bincount(labels.ravel())
    keep = sizes >= area
    keep[0] = False
    return np.asarray(keep[labels], dtype=np.bool_)


def _blur(rgb: UInt8, sigma: float) -> Float32:
    return np.asarray(ndimage.gaussian_filter(rgb.astype(np.float32), (sigma, sigma, 0)), dtype=np.float32)
