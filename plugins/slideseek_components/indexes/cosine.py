"""Exact cosine distance between float codes, and the median of minima between sets of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Code, CodeSpec, Float32, Float64, Mask, UInt8

from .median_of_minima import Direction, set_distances
from .store import SlideStore, blocks
from .stored_index import Near, StoredSetIndex

BLOCK_BYTES = 1 << 24
"""Stored rows compared at a time; bounds the working memory of a search."""
CHUNK = 1024
"""Columns multiplied in single precision before the sum continues in double."""
TOGETHER = 256
"""Query rows of a batch that are multiplied at once."""


@dataclass
class Cosine(StoredSetIndex):
    """Search by cosine distance, 1 - cos in [0, 2]; between sets, by the median of minima, like `hamming`.

    The cosine is summed in double precision and rounded to single, the precision of the codes. It depends only on the
    two codes, never on the mask, the batch or the number of threads. A zero vector has no direction: its cosine with
    every vector, another zero vector included, counts as 0, so its distance is 1.
    """

    name: ClassVar[str] = "cosine"
    distance_name: ClassVar[str] = "1 - cosine"

    def refuses(self, spec: CodeSpec) -> str:
        """Accept floats, single or sets; also sparse ones, which it stores densely."""
        return f"cosine compares floats, not {spec}: use hamming" if spec.kind == "bits" else ""

    def row_distances(self, query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
        """Return 1 - cosine between rows: float64 (n, m)."""
        return cosine_distances(query, target)

    def _unfit(self, code: Code) -> str:
        return "" if code.rows.dtype == np.float32 else f"rows are {code.rows.dtype}, not float32"

    def _fields(self, codes: Sequence[Code]) -> tuple[Sequence[int], Mapping[str, NDArray[Any]]]:
        rows = scaled(np.concatenate([code.rows for code in codes]))
        return [len(code) for code in codes], {"rows": rows, "norms": norms(rows)}

    def near(self, codes: Sequence[Code], wanted: Mask | None, k: int) -> list[Near]:
        """Discard distant slides with a fast matrix product of known error, then measure the rest exactly."""
        queries = [scaled(code.rows) for code in codes]
        slots, found = self.store_.slots(wanted), []
        for group in _groups(queries):
            for query, rough in zip(group, _rough_distances(self.store_, group, wanted, self.direction)):
                cut = np.partition(rough, k - 1)[k - 1] + 2 * rough_error(query.shape[1])
                kept = slots[rough <= cut]
                near = np.zeros(len(self.store_.slot_ids), np.bool_)
                near[kept] = True
                found.append((kept, _distances(self.store_, query, near, self.direction)))
        return found


def cosine_distances(query: NDArray[Any], target: NDArray[Any]) -> Float64:
    """Return 1 - cosine of every query row and every target row: float64 (n, m); a zero row has cosine 0.

    A matrix product adds in an order that depends on the shape: rounding to single precision, as a search does, hides
    it.
    """
    return rounded_distances(
        query.astype(np.float64) @ target.astype(np.float64).T, np.outer(norms(query), norms(target))
    )


def scaled(rows: NDArray[Any]) -> Float32:
    """Scale each row by a power of two to a norm in [0.5, 1): no cosine changes and no product overflows."""
    _, exponents = np.frexp(norms(rows))
    result: Float32 = np.ldexp(rows, -exponents[:, None]).astype(np.float32, copy=False)
    return result


def norms(rows: NDArray[Any]) -> Float64:
    """Return the Euclidean norm of each row in double precision, in which no float32 value over- or underflows."""
    squares: Float64 = np.add.reduce(np.square(rows, dtype=np.float64), axis=1)
    return np.sqrt(squares)


def rounded_distances(dots: Float64, scale: Float64) -> Float64:
    """Turn dot products and the products of the norms into distances; a norm of zero gives 1."""
    cosines = np.divide(dots, scale, out=np.zeros_like(dots), where=scale > 0)
    return 1.0 - np.clip(cosines.astype(np.float32), -1, 1).astype(np.float64)


def rough_error(width: int) -> float:
    """Bound the error of `_rough_distances`: twice that of a float32 sum of products of unit vectors, and roundings."""
    return float((min(width, CHUNK) + 16) * 2.0**-23)


def _groups(queries: Sequence[Float32]) -> list[list[Float32]]:
    """Divide a batch into groups of about TOGETHER query rows."""
    ends = np.cumsum([len(query) for query in queries])
    cuts = np.flatnonzero(np.diff(ends // TOGETHER)) + 1
    bounds = [0, *cuts.tolist(), len(queries)]
    return [list(queries[first:last]) for first, last in pairwise(bounds) if last > first]


def _rough_distances(
    store: SlideStore, queries: Sequence[Float32], wanted: Mask | None, direction: Direction
) -> list[Float64]:
    """Return the set distances of several queries to each wanted slide, within `rough_error` of the exact ones."""
    together = np.concatenate(queries)
    lengths = norms(together)[:, None]
    units = np.divide(together, lengths, out=np.zeros_like(together), where=lengths > 0, casting="unsafe")
    cuts = np.cumsum([len(query) for query in queries])[:-1]
    found: list[list[Float64]] = [[] for _ in queries]
    for fields, starts in blocks(store, wanted, BLOCK_BYTES):
        rows, lengths = fields["rows"], fields["norms"]
        dots = np.zeros((len(units), len(rows)))
        for first in range(0, rows.shape[1], CHUNK):
            dots += units[:, first : first + CHUNK] @ rows[:, first : first + CHUNK].T
        between = 1 - np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
        for place, part in enumerate(np.split(between, cuts)):
            found[place].append(set_distances(part, starts, direction))
    return [np.concatenate(parts) for parts in found]


def _distances(store: SlideStore, query: Float32, wanted: Mask, direction: Direction) -> Float64:
    """Return the set distances to the wanted slides, in slot order, each from one fixed order of additions."""
    lengths, found = norms(query), [np.empty(0)]
    wide = query.astype(np.float64)
    for fields, starts in blocks(store, wanted, BLOCK_BYTES):
        rows = fields["rows"].astype(np.float64)
        between = np.empty((len(wide), len(rows)))
        for row, length, out in zip(wide, lengths, between):
            out[:] = rounded_distances(np.add.reduce(rows * row, axis=1), fields["norms"] * length)
        found.append(set_distances(between, starts, direction))
    return np.concatenate(found)
