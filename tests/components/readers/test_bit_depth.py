"""Samples of any depth become 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slideseek_components.readers.bit_depth import eight_bit


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0, 7, 255], np.uint8), [0, 7, 255]),
        (np.array([False, True]), [0, 255]),
        (np.array([0, 32_768, 65_535], np.uint16), [0, 128, 255]),
        (np.array([0, 2_048, 4_095], np.uint16), [0, 128, 255]),
        (np.array([0, 100, 200], np.uint16), [0, 100, 200]),
        (np.array([-5, 0, 1_023], np.int32), [0, 0, 255]),
        (np.array([0.0, 0.5, 1.0], np.float32), [0, 128, 255]),
        (np.array([np.nan, np.inf, -np.inf, 1.0], np.float32), [0, 0, 0, 255]),
        (np.array([0.0, 100.0, 255.0]), [0, 100, 255]),
        (np.array([], np.uint16), []),
    ],
)
def test_eight_bit(values: np.ndarray[Any, Any], expected: list[int]) -> None:
    got = eight_bit(values)
    assert got.dtype == np.uint8
    assert got.tolist() == expected
