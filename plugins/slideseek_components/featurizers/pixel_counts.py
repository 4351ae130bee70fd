"""Count colours, stains, patterns and slopes of one patch: the compiled pixel loops of `colour-texture`.

Integers wherever possible, one pixel at a time: the counts are the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from slideseek.types import Float32, Float64, Int64, UInt8
from slideseek_components.featurizers.stains import stain_table

HUES = 16
LEVELS = 16
STAIN_TOP = 1.28
"""Optical density at which the scale of a stain ends; higher values count as the last level."""
PATTERNS = 10
SLOPES = 8

_STAINS = stain_table()


def count_colours(image: UInt8) -> tuple[Float64, Int64, Int64, Int64]:
    """Count the colours of RGB uint8 (h, w, 3).

    Returns hue (HUES,), weighted by chroma, so grey has no hue; saturation (LEVELS,); value (LEVELS,);
    haematoxylin by eosin (LEVELS, LEVELS).
    """
    hue = np.zeros(HUES, dtype=np.float64)
    saturation, value = np.zeros(LEVELS, dtype=np.int64), np.zeros(LEVELS, dtype=np.int64)
    stains = np.zeros((LEVELS, LEVELS), dtype=np.int64)
    _count_colours(image, _STAINS, LEVELS / STAIN_TOP, hue, saturation, value, stains)
    return hue, saturation, value, stains


def planes(image: UInt8) -> tuple[UInt8, UInt8]:
    """Return brightness and haematoxylin of RGB uint8 (h, w, 3), each uint8 (h, w)."""
    brightness, haematoxylin = np.empty(image.shape[:2], dtype=np.uint8), np.empty(image.shape[:2], dtype=np.uint8)
    _fill_planes(image, _STAINS, 255 / STAIN_TOP, brightness, haematoxylin)
    return brightness, haematoxylin


def halve(plane: UInt8) -> UInt8:
    """Average uint8 (s, s) over 2 x 2 pixels; an odd last row and column count twice."""
    side = (plane.shape[0] + 1) // 2
    half = np.empty((side, side), dtype=np.uint8)
    _halve(plane, half)
    return half


def count_patterns(plane: UInt8) -> Int64:
    """Count the rotation-invariant uniform local binary patterns of uint8 (s, s): int64 (PATTERNS,)."""
    counts = np.zeros(256, dtype=np.int64)
    _count_comparisons(plane, counts)
    return np.bincount(_PATTERN, weights=counts, minlength=PATTERNS).astype(np.int64)


def count_slopes(plane: UInt8) -> Int64:
    """Count the edge strengths of uint8 (s, s), one class per doubling of the slope: int64 (SLOPES,)."""
    counts = np.zeros(SLOPES, dtype=np.int64)
    _count_slopes(plane, _SLOPE, counts)
    return counts


def _pattern_table() -> UInt8:
    """Map the 8 comparisons with the neighbours, read around the circle, to one of PATTERNS classes.

    A pattern with at most two changes around the circle (uniform) is classed by its number of ones, 0 to 8,
    for any rotation; all others share the last class.
    """
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    uniform = (bits != np.roll(bits, 1, axis=1)).sum(1) <= 2
    return np.where(uniform, bits.sum(1), PATTERNS - 1).astype(np.uint8)


_PATTERN = _pattern_table()

# The squared slope, at most 2 * 255^2, to its class: 0 is flat, then up to 1, 2, 4 and so on.
_SLOPE: UInt8 = np.minimum(np.ceil(np.log2(np.arange(2 * 255**2 + 1) + 1) / 2), SLOPES - 1).astype(np.uint8)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count_colours(
    image: UInt8, stain: Float32, scale: float, hue: Float64, saturation: Int64, value: Int64, stains: Int64
) -> None:
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            r, g, b = np.int64(image[y, x, 0]), np.int64(image[y, x, 1]), np.int64(image[y, x, 2])
            top = max(r, g, b)
            chroma = top - min(r, g, b)
            if chroma > 0:
                if top == r:
                    sixth = (g - b) / chroma
                elif top == g:
                    sixth = 2 + (b - r) / chroma
                else:
                    sixth = 4 + (r - g) / chroma
                hue[int(np.floor(sixth * HUES / 6)) % HUES] += chroma
            saturation[LEVELS * chroma // (top + 1)] += 1
            value[top * LEVELS // 256] += 1
            h = (stain[0, 0, r] + stain[0, 1, g] + stain[0, 2, b]) * scale
            e = (stain[1, 0, r] + stain[1, 1, g] + stain[1, 2, b]) * scale
            stains[int(min(max(h, 0.0), LEVELS - 1.0)), int(min(max(e, 0.0), LEVELS - 1.0))] += 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill_planes(image: UInt8, stain: Float32, scale: float, brightness: UInt8, haematoxylin: UInt8) -> None:
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            r, g, b = np.int64(image[y, x, 0]), np.int64(image[y, x, 1]), np.int64(image[y, x, 2])
            # The weights of R, G and B in brightness (BT.601), in 256ths.
            brightness[y, x] = (77 * r + 150 * g + 29 * b) >> 8
            h = (stain[0, 0, r] + stain[0, 1, g] + stain[0, 2, b]) * scale
            haematoxylin[y, x] = int(min(max(h, 0.0), 255.0))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _halve(plane: UInt8, half: UInt8) -> None:
    last = plane.shape[0] - 1
    for y in range(half.shape[0]):
        for x in range(half.shape[1]):
            below, right = min(2 * y + 1, last), min(2 * x + 1, last)
            total = (
                np.int64(plane[2 * y, 2 * x])
                + np.int64(plane[2 * y, right])
                + np.int64(plane[below, 2 * x])
                + np.int64(plane[below, right])
            )
            half[y, x] = (total + 2) >> 2


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count_comparisons(plane: UInt8, counts: Int64) -> None:
    last = plane.shape[0] - 1
    for y in range(last + 1):
        above, below = max(y - 1, 0), min(y + 1, last)
        for x in range(last + 1):
            left, right = max(x - 1, 0), min(x + 1, last)
            c = plane[y, x]
            code = (
                (plane[above, left] >= c)
                | ((plane[above, x] >= c) << 1)
                | ((plane[above, right] >= c) << 2)
                | ((plane[y, right] >= c) << 3)
                | ((plane[below, right] >= c) << 4)
                | ((plane[below, x] >= c) << 5)
                | ((plane[below, left] >= c) << 6)
                | ((plane[y, left] >= c) << 7)
            )
            counts[code] += 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count_slopes(plane: UInt8, classes: UInt8, counts: Int64) -> None:
    last = plane.shape[0] - 1
    for y in range(last + 1):
        above, below = max(y - 1, 0), min(y + 1, last)
        for x in range(last + 1):
            across = np.int64(plane[y, min(x + 1, last)]) - np.int64(plane[y, max(x - 1, 0)])
            down = np.int64(plane[below, x]) - np.int64(plane[above, x])
            counts[classes[across * across + down * down]] += 1
