"""Magnifications, which are nominal, and µm per pixel, which count."""

from __future__ import annotations

import math


def nominal_mpp(magnification: float) -> float:
    """Return the µm per pixel a magnification usually stands for: 10 / magnification (20x = 0.5)."""
    if not (math.isfinite(magnification) and magnification > 0):
        raise ValueError(f"magnification must be a number above 0, not {magnification}")
    return 10.0 / magnification


def describe_magnification(magnification: float) -> str:
    """Describe a magnification, e.g. "20x = 0.50 µm/px (nominal)"."""
    return f"{magnification:g}x = {nominal_mpp(magnification):.2f} µm/px (nominal)"


def finer_than_scanned(slide_mpp: float, asked: float) -> str:
    """Return a note if `asked` is finer than the scan (with 2 % tolerance for rounded values), else ""."""
    if asked < slide_mpp * 0.98:
        return f"patches of {asked:.2f} µm/px are upsampled: the slide has only {slide_mpp:.2f}"
    return ""
