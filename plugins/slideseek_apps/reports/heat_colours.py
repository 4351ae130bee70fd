"""Heat map colours that stand out from pink and purple tissue and suit colour-blind readers."""

from __future__ import annotations

import numpy as np

from slideseek.searching.evidence import EvidenceKind
from slideseek.types import Float64, UInt8

# Weak to strong: dark blue, teal, green, yellow. Against to for: blue, pale, orange.
ALIKE = np.array([[40, 40, 110], [30, 110, 140], [50, 170, 110], [250, 225, 50]], dtype=np.float64)
SIGNED = np.array([[25, 90, 200], [240, 240, 235], [235, 105, 0]], dtype=np.float64)


def strengths(parts: Float64, kind: EvidenceKind) -> Float64:
    """Return the position of each part on its scale, 0 to 1: float64 (n,).

    Pairs: 0 is least similar, 1 most similar. Contributions: 0.5 is zero, and the largest absolute value is at an end
    of the scale.
    """
    if kind != "pairs":
        largest = float(np.abs(parts).max(initial=0.0))
        return 0.5 + parts / (2 * largest) if largest > 0 else np.full(len(parts), 0.5)
    low, high = float(parts.min(initial=np.inf)), float(parts.max(initial=-np.inf))
    return (parts - low) / (high - low) if high > low else np.ones(len(parts))


def colours(parts: Float64, kind: EvidenceKind) -> UInt8:
    """Return the colour of each part: uint8 (n, 3)."""
    return ramp(strengths(parts, kind), kind)


def ramp(places: Float64, kind: EvidenceKind) -> UInt8:
    """Return the colours at positions 0 to 1 of a scale: uint8 (n, 3)."""
    stops = ALIKE if kind == "pairs" else SIGNED
    at = np.linspace(0, 1, len(stops))
    channels = [np.interp(places, at, stops[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)
