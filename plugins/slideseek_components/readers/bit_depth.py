"""Convert samples of any depth to 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.types import UInt8

_DEPTHS = (8, 10, 12, 14, 16, 24, 32)


def eight_bit(data: NDArray[Any]) -> UInt8:
    """Scale samples to uint8 without stretching the contrast.

    Integers are divided by the full range of the smallest common bit depth that holds their maximum (cameras store 10,
    12 or 14 bits in 16). Fractions up to 1 are divided by 1. Negative and undefined values become black.
    """
    if data.dtype == np.uint8:
        return data
    if data.dtype == np.bool_:
        return data.astype(np.uint8) * np.uint8(255)
    values = np.maximum(np.nan_to_num(data.astype(np.float64), posinf=0.0), 0.0)
    largest = float(values.max(initial=0.0))
    if data.dtype.kind == "f" and largest <= 1.0:
        full = 1.0
    else:
        full = next((2.0**bits - 1 for bits in _DEPTHS if largest < 2.0**bits), largest)
    return np.asarray((values * (255.0 / full)).round(), dtype=np.uint8)
