"""Exact cosine distance between float codes, and median-of-min between sets of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Code, CodeSpec, Float32, Float64, Int64

from .sets import DIRECTIONS, Direction, set_distances
from .store import row_numbers
from .stored_index import StoredIndex

BLOCK_BYTES = 1 << 24
"""Target rows compared at a time, which bounds the working memory of a search."""


@dataclass
class Cosine(StoredIndex):
    """Search by cosine distance, 1 - cos in [0, 2]; between sets, the median of minima as in `hamming`.

    The cosine is computed in double precision and rounded to single, the precision of the codes. A zero vector has no
    direction: its cosine with any vector, itself included, is 0, so its distance is 1.

    direction: which set the median runs over, `query`, `target` or `symmetric` (the mean of both). Without effect on
    single codes.
    """

    name: ClassVar[str] = "cosine"
    direction: Direction = "query"

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction: one of {', '.join(DIRECTIONS)}, not {self.direction!r}")

    def refuses(self, spec: CodeSpec) -> str:
        """Accept floats, single or sets, sparse ones too (stored densely)."""
        return f"cosine compares floats, not {spec}: use hamming" if spec.kind == "bits" else ""

    def _unfit(self, code: Code) -> str:
        return "" if code.rows.dtype == np.float32 else f"rows are {code.rows.dtype}, not float32"

    def _fields(self, codes: Sequence[Code]) -> tuple[Sequence[int], Mapping[str, NDArray[Any]]]:
        rows = np.concatenate([code.rows for code in codes])
        return [len(code) for code in codes], {"rows": rows, "norms": norms(rows)}

    def _distances(self, code: Code, slots: Int64) -> Float64:
        query_norms, found = norms(code.rows), []
        for base, segment in self.store_.based_segments():
            first, last = np.searchsorted(slots, [base, base + len(segment)])
            local, stored = slots[first:last] - base, segment.fields["rows"]
            weight = np.cumsum(np.diff(segment.starts)[local]) * stored.shape[1] * 4
            for block in np.split(local, np.flatnonzero(np.diff(weight // BLOCK_BYTES)) + 1):
                rows, starts = row_numbers(segment.starts, block)
                if len(rows):
                    there = segment.fields["norms"][rows]
                    wide = stored[rows].astype(np.float64)
                    between = np.stack(
                        [_row_distances(wide, there, row, norm) for row, norm in zip(code.rows, query_norms)]
                    )
                    found.append(set_distances(between, starts, self.direction))
        return np.concatenate(found)


def norms(rows: Float32) -> Float64:
    """Return the Euclidean norm of each row in double precision, which neither overflows nor underflows."""
    squares: Float64 = np.add.reduce(np.square(rows, dtype=np.float64), axis=1)
    return np.sqrt(squares)


def _row_distances(stored: Float64, stored_norms: Float64, row: Float32, norm: float) -> Float64:
    """Return 1 - cos of each stored row to `row`; a row's result depends on that row alone, never on its neighbours."""
    dots: Float64 = np.add.reduce(stored * row.astype(np.float64), axis=1)
    scale = stored_norms * norm
    cosines = np.divide(dots, scale, out=np.zeros_like(dots), where=scale > 0)
    return 1.0 - np.clip(cosines.astype(np.float32), -1, 1).astype(np.float64)
