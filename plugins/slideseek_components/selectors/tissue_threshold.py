"""The threshold between stained tissue and the glass of the same slide, found on its thumbnail."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from slideseek.types import Float32, Mask, UInt8
from slideseek_components.selectors.pixel_colours import extremes, grey, hsv, roughness, smoothed

_SHADOW_DENSITY = 0.08
"""Largest optical density of a grey shadow on glass; only darker pixels count as stain."""

_GLASS_SIGNAL = 0.045
"""Largest mean stain signal of glass: a scanner's colour cast of about 10 grey levels between channels."""

_GLASS_NOISE = (0.015, 0.045)
"""Least and largest assumed variation of the glass signal; JPEG gives glass near tissue a tinge of 0.03."""

_GLASS_ROUGHNESS = 1.2
"""Largest local variation of glass in grey levels, in its flattest quarter; tissue varies by 3 to 10."""

_MAX_SPLITS = 4
_MAX_TINT = 0.15
_MAX_TINT_HUE = 200.0
_MIN_SHARE = 0.002


def stained(rgb: UInt8) -> Mask:
    """Return bool (h, w), true where the thumbnail is more coloured or darker than the glass of the same slide."""
    smooth = smoothed(rgb)
    # Scanners and converters fill the canvas with pure white: it is not glass.
    scanned = np.asarray(extremes(np.moveaxis(rgb, 2, 0))[1] < 254, dtype=np.bool_)
    if np.count_nonzero(scanned) < _MIN_SHARE * scanned.size:
        return np.zeros(scanned.shape, dtype=np.bool_)
    rough = roughness(smooth)
    signal = _signal(smooth / _tint(rgb, rough, scanned)[:, None, None])
    glass, threshold = _glass_and_threshold(signal[scanned], rough[scanned])
    # Noise exceeds the threshold in single pixels, tissue together with its neighbours.
    around = ndimage.uniform_filter(signal, 7)
    return np.asarray((signal > threshold) & (around > glass + 0.6 * (threshold - glass)), dtype=np.bool_)


def otsu(values: Float32, bins: int = 256) -> float:
    """Return the threshold that best splits values (n,) into two classes; the largest value if all are equal."""
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-6:
        return high
    counts, edges = np.histogram(values, bins=bins, range=(low, high))
    centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)[:-1]
    above = values.size - below
    sums = np.cumsum(counts * centres)
    gap = sums[:-1] / np.maximum(below, 1) - (sums[-1] - sums[:-1]) / np.maximum(above, 1)
    return float(edges[1:-1][int(np.argmax(below * above * gap**2))])


def _signal(planes: Float32) -> Float32:
    """Return how stained each pixel is (h, w): HSV saturation plus half the optical density beyond a shadow's."""
    high, low = extremes(planes)
    density = -np.log10((np.minimum(grey(planes), 255) + 1) / 256)
    return np.asarray((high - low) / np.maximum(high, 1) + np.maximum(density - _SHADOW_DENSITY, 0) / 2, np.float32)


def _glass_and_threshold(signal: Float32, rough: Float32) -> tuple[float, float]:
    """Return the signal of glass and the threshold to tissue; `signal` and `rough` of all scanned pixels, both (n,).

    Otsu's split alone lands in the middle of a strong stain and loses pale tissue, so the lower class is split again
    until it is as colourless and flat as glass; the threshold then lies just above the noise of that class. If no
    such class exists, the slide is full of tissue, and only pixels with a quarter of the usual stain are left out.
    """
    usual = float(np.median(signal))
    for _ in range(_MAX_SPLITS):
        split = otsu(signal)
        lower = signal <= split
        signal, rough = signal[lower], rough[lower]
        middle = float(np.median(signal))
        if middle <= _GLASS_SIGNAL and float(np.percentile(rough, 25)) <= _GLASS_ROUGHNESS:
            spread = 1.4826 * float(np.median(np.abs(signal - middle)))
            noise = max(float(np.percentile(signal, 95)) - middle, 5.0 * spread)
            return middle, max(middle + _GLASS_NOISE[0], min(split, middle + noise, middle + _GLASS_NOISE[1]))
    return 0.0, min(_GLASS_SIGNAL, usual / 4)


def _tint(rgb: UInt8, rough: Float32, scanned: Mask) -> Float32:
    """Return the colour of tinted glass, float32 (3,) with 1 as its largest value; ones for white glass.

    Glass is bright and flat. A blue to pink tinge is mucin or pale tissue, never the lamp.
    """
    light = grey(np.moveaxis(rgb, 2, 0))
    flat = (rough < _GLASS_ROUGHNESS) & (light > 0.8 * np.percentile(light, 99)) & scanned
    if np.count_nonzero(flat) < _MIN_SHARE * flat.size:
        return np.ones(3, dtype=np.float32)
    colour = np.median(rgb[flat], axis=0).astype(np.float32)
    hue, saturation, _ = (float(part[0, 0]) for part in hsv(colour.round().astype(np.uint8)[None, None]))
    if saturation > _MAX_TINT or hue > _MAX_TINT_HUE:
        return np.ones(3, dtype=np.float32)
    return np.asarray(colour / colour.max(), dtype=np.float32)
