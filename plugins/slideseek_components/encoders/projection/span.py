"""The directions in which the codes of training slides differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.types import Float32, Float64

_EXACT = 2048
"""Up to this many slides or values the eigenproblem is solved exactly, else a random basis is refined."""

_FLOOR = 1e-7
"""Directions with less than this share of the largest variance are rounding errors."""

_SPARE = 16
_REFINEMENTS = 2


@dataclass(frozen=True)
class Span:
    """centre: float64 (width,), the mean code. axes: float64 (width, d), orthonormal, most variance first."""

    centre: Float64
    axes: Float64

    def coordinates(self, codes: Float32 | Float64) -> Float64:
        """Return float64 (n, d) of codes (n, width), 1,024 at a time."""
        found = [
            (codes[start : start + 1024].astype(np.float64) - self.centre) @ self.axes
            for start in range(0, len(codes), 1024)
        ]
        return np.concatenate(found)


def span_of(codes: Float32, dimensions: int, seed: int) -> Span:
    """Return the main directions of codes, float32 (n, width): all n - 1 of them, or the first `dimensions`.

    At most 2,048 slides or values: exactly. More: by a seeded random basis that is refined twice (Halko, Martinsson,
    Tropp, "Finding structure with randomness", 2011), so neither n x n nor width x width values are needed.
    """
    centre = codes.mean(axis=0, dtype=np.float64)
    centred = codes - centre.astype(np.float32)
    # The rounded centre is the one subtracted, so that codes and coordinates agree to the last digit.
    centre = centre.astype(np.float32).astype(np.float64)
    n, width = centred.shape
    if min(n, width) <= _EXACT:
        axes, variance = _exact(centred, dimensions)
    else:
        axes, variance = _refined(centred, dimensions, seed)
    kept = variance > _FLOOR * variance.max(initial=0.0)
    if len(codes) < 2 or not kept.any():
        raise SlideseekError(
            f"nothing can be projected: the {len(codes)} training slides do not have two different codes",
            "add training slides, or set projection aside and use the inner encoder alone",
        )
    return Span(centre, np.ascontiguousarray(axes[:, kept]))


def _exact(centred: Float32, dimensions: int) -> tuple[Float64, Float64]:
    rows = centred.astype(np.float64)
    if len(rows) <= rows.shape[1]:
        variance, left = np.linalg.eigh(rows @ rows.T)
        variance, left = variance[::-1][:dimensions], left[:, ::-1][:, :dimensions]
        variance = np.maximum(variance, 0.0)
        length = np.sqrt(np.where(variance > 0, variance, 1.0))
        return rows.T @ (left / length), variance
    variance, axes = np.linalg.eigh(rows.T @ rows)
    return axes[:, ::-1][:, :dimensions], np.maximum(variance[::-1][:dimensions], 0.0)


def _refined(centred: Float32, dimensions: int, seed: int) -> tuple[Float64, Float64]:
    count = min(dimensions + _SPARE, *centred.shape)
    start = np.random.default_rng([seed, 0x5A]).standard_normal((centred.shape[1], count), dtype=np.float32)
    basis: Float32 = centred @ start
    for _ in range(_REFINEMENTS):
        basis = np.linalg.qr(basis)[0]
        basis = centred @ np.linalg.qr(centred.T @ basis)[0]
    basis = np.linalg.qr(basis)[0]
    small = (basis.T @ centred).astype(np.float64)
    variance, left = np.linalg.eigh(small @ small.T)
    variance, left = np.maximum(variance[::-1][:dimensions], 0.0), left[:, ::-1][:, :dimensions]
    return small.T @ (left / np.sqrt(np.where(variance > 0, variance, 1.0))), variance
