"""When two codes count as equal: equal bits, floats within a tolerance, sets in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Code
from slideseek_apps.testing.checks import require

TOLERANCE = 1e-6
"""Allowed difference of float codes, relative to the largest value of the two."""


def require_same_code(expected: Code, got: Code, what: str, fix: str) -> None:
    """Require the same space and exactly the same rows in the same order."""
    same = expected.space == got.space and np.array_equal(expected.rows, got.rows)
    require(same, what, _difference(expected, got), fix)


def require_same_rows(expected: Code, got: Code, what: str, fix: str) -> None:
    """Require the same space and the same set of rows: equal bits, floats within `TOLERANCE`."""
    same = expected.space == got.space and same_set(expected.rows, got.rows)
    require(same, what, _difference(expected, got), fix)


def same_set(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Return whether rows of `a` and `b` can be matched one to one; uint8 exactly, float32 within `TOLERANCE`."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    allowed = 0.0
    if a.dtype == np.float32:
        allowed = TOLERANCE * max(float(np.abs(a).max(initial=0)), float(np.abs(b).max(initial=0)))
    free = list(range(len(b)))
    for row in a.astype(np.float64):
        partner = next((i for i in free if np.abs(row - b[i].astype(np.float64)).max(initial=0) <= allowed), None)
        if partner is None:
            return False
        free.remove(partner)
    return True


def _difference(expected: Code, got: Code) -> str:
    if expected.space != got.space:
        return f"space {got.space!r} instead of {expected.space!r}"
    if expected.rows.shape != got.rows.shape or expected.rows.dtype != got.rows.dtype:
        forms = (f"{code.rows.dtype} {code.rows.shape}" for code in (expected, got))
        return " and ".join(forms)
    if expected.rows.dtype == np.uint8:
        bits = int(np.unpackbits(expected.rows.astype(np.uint8) ^ got.rows.astype(np.uint8)).sum())
        return f"codes that differ in {bits} bits, row by row"
    worst = float(np.abs(expected.rows.astype(np.float64) - got.rows.astype(np.float64)).max())
    return f"codes that differ by up to {worst:.2g}, row by row"
