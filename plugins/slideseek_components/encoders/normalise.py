"""The two normalisations of the improved Fisher vector (Perronnin et al., ECCV 2010)."""

from __future__ import annotations

import math

import numpy as np

from slideseek.types import Float64


def signed_root(values: Float64) -> Float64:
    """Return sign(v) * sqrt(|v|), the "power" normalisation."""
    roots = np.abs(values)
    np.sqrt(roots, out=roots)
    return np.copysign(roots, values, out=roots)


def length(values: Float64) -> float:
    """Return the Euclidean norm of a vector.

    Not `np.linalg.norm`: that is a BLAS call, whose last bits depend on the number of threads for long vectors.
    """
    return math.sqrt(float(np.square(values).sum()))


def unit(values: Float64) -> Float64:
    """Return `values` divided by their Euclidean norm; a zero vector stays zero."""
    return values / (length(values) or 1.0)
