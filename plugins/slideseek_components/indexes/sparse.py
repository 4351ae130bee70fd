"""Exact cosine distance between sparse codes, from an inverted index: codes are never expanded to dense form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slideseek.types import Code, CodeSpec, Float32, Float64, Mask, UInt8

from .cosine import cosine_distances, rounded_distances
from .store import Segment
from .stored_index import Near, StoredIndex

BATCH = 64
"""Queries multiplied with the inverted index at once; bounds the memory for their products."""


@dataclass
class Sparse(StoredIndex):
    """Search sparse codes by cosine distance, with the values of `cosine` and memory in proportion to the non-zeros.

    The non-zeros of each slide are stored. The first search after a change inverts them: for each dimension, the slides
    that have it. A query then visits only its own dimensions. Sums are in double precision over ascending dimensions,
    so a distance depends only on the two codes. A zero vector is at distance 1 from every vector.
    """

    name: ClassVar[str] = "sparse"
    distance_name: ClassVar[str] = "1 - cosine"
    inverted_: WeakKeyDictionary[Segment, tuple[Any, Float64]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    def refuses(self, spec: CodeSpec) -> str:
        """Accept single sparse codes."""
        if spec.kind != "sparse":
            return f"sparse stores sparse floats, not {spec}: use {'hamming' if spec.kind == 'bits' else 'cosine'}"
        return f"sparse stores one code per slide, not {spec}: use cosine" if spec.many else ""

    def row_distances(self, query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
        """Return 1 - cosine between rows: float64 (n, m)."""
        return cosine_distances(query, target)

    def _unfit(self, code: Code) -> str:
        if code.rows.dtype != np.float32:
            return f"rows are {code.rows.dtype}, not float32"
        return "" if len(code) == 1 else f"{len(code)} rows, but sparse stores one per slide"

    def _fields(self, codes: Sequence[Code]) -> tuple[Sequence[int], Mapping[str, NDArray[Any]]]:
        present = [np.flatnonzero(code.rows[0]) for code in codes]
        values = [code.rows[0, dimensions] for code, dimensions in zip(codes, present, strict=True)]
        fields = {"dimensions": np.concatenate(present).astype(np.int32), "values": np.concatenate(values)}
        return [len(dimensions) for dimensions in present], fields

    def near(self, codes: Sequence[Code], wanted: Mask | None, k: int) -> list[Near]:
        """Multiply the queries with each inverted segment; every wanted slide is in the result."""
        slots, found = self.store_.slots(wanted), list[Near]()
        for first in range(0, len(codes), BATCH):
            queries = csr_array(np.concatenate([code.rows for code in codes[first : first + BATCH]], dtype=np.float64))
            norms = np.sqrt(np.asarray(queries.multiply(queries).sum(axis=1)))
            parts = [self._segment_distances(queries, norms, segment) for segment in self.store_.segments]
            distances = np.concatenate(parts, axis=1)
            found.extend((slots, row) for row in (distances if wanted is None else distances[:, wanted]))
        return found

    def _segment_distances(self, queries: Any, query_norms: Float64, segment: Segment) -> Float64:
        """Return the distances (queries, slides of the segment)."""
        if segment not in self.inverted_:
            self.inverted_[segment] = _invert(segment, self.store_.columns)
        inverted, norms = self.inverted_[segment]
        return rounded_distances((queries @ inverted).toarray(), query_norms[:, None] * norms)


def _invert(segment: Segment, columns: int) -> tuple[Any, Float64]:
    """Return the slides by dimension, a CSR array (columns, slides) in double precision, and the norm of each slide."""
    values = segment.fields["values"].astype(np.float64)
    by_slide = csr_array((values, segment.fields["dimensions"], segment.starts), shape=(len(segment), columns))
    return by_slide.T.tocsr(), np.sqrt(np.asarray(by_slide.multiply(by_slide).sum(axis=1)))
