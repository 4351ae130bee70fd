"""Exact Hamming distance between codes of bits, and median-of-min between sets of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Code, CodeSpec, Float64, Int64

from .sets import DIRECTIONS, Direction, set_distances
from .store import row_numbers
from .stored_index import StoredIndex

BLOCK_BYTES = 1 << 24
"""Target rows compared at a time, which bounds the working memory of a search."""


@dataclass
class Hamming(StoredIndex):
    """Search by Hamming distance, the rule of Yottixel for sets: median over query rows of the minimum over target rows.

    direction: which set the median runs over. `query` is Yottixel's (Kalra et al., Medical Image Analysis 2020),
    `target` the other way round, `symmetric` the mean of both. Without effect on single codes.
    """

    name: ClassVar[str] = "hamming"
    direction: Direction = "query"

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction: one of {', '.join(DIRECTIONS)}, not {self.direction!r}")

    def refuses(self, spec: CodeSpec) -> str:
        """Accept bits, single or sets."""
        return "" if spec.kind == "bits" else f"hamming compares bits, not {spec}: use cosine, or an encoder of bits"

    def _unfit(self, code: Code) -> str:
        return "" if code.rows.dtype == np.uint8 else f"rows are {code.rows.dtype}, not packed bits (uint8)"

    def _fields(self, codes: Sequence[Code]) -> tuple[Sequence[int], Mapping[str, NDArray[Any]]]:
        return [len(code) for code in codes], {"words": words(np.concatenate([code.rows for code in codes]))}

    def _distances(self, code: Code, slots: Int64) -> Float64:
        query, found = words(code.rows), []
        for base, segment in self.store_.based_segments():
            first, last = np.searchsorted(slots, [base, base + len(segment)])
            local, stored = slots[first:last] - base, segment.fields["words"]
            weight = np.cumsum(np.diff(segment.starts)[local]) * stored.shape[1] * 8
            for block in np.split(local, np.flatnonzero(np.diff(weight // BLOCK_BYTES)) + 1):
                rows, starts = row_numbers(segment.starts, block)
                if len(rows):
                    between = np.stack([_row_distances(stored[rows], row) for row in query])
                    found.append(set_distances(between, starts, self.direction))
        return np.concatenate(found)


def words(packed: NDArray[Any]) -> NDArray[np.uint64]:
    """Pad packed bits, uint8 (n, bytes), with zeros to whole 64-bit words: uint64 (n, words)."""
    count, width = packed.shape
    padded = np.zeros((count, (width + 7) // 8 * 8), np.uint8)
    padded[:, :width] = packed
    return padded.view(np.uint64)


def _row_distances(stored: NDArray[np.uint64], row: NDArray[np.uint64]) -> NDArray[np.int32]:
    distances: NDArray[np.int32] = np.bitwise_count(stored ^ row).sum(axis=1, dtype=np.int32)
    return distances
