"""Exact Hamming distance between codes of bits, and the median of minima between sets of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Code, CodeSpec, Float32, Float64, Hit, Int64, Mask, UInt8

from .median_of_minima import Direction, set_distances
from .store import SlideStore, blocks
from .stored_index import Near, StoredSetIndex

if TYPE_CHECKING:  # slow to load
    from .hamming_compiled import SinglesSearch

RANK_BITS = 32
RANK = (1 << RANK_BITS) - 1
"""Lower bits of the compiled kernels' keys: the rank of a slide's id. The upper bits are four times the distance."""
COMPILED_AFTER = 1 << 31
"""Bytes an index compares in numpy before it switches to the compiled kernels.

Loading them takes about 0.8 s, in which numpy compares 2 to 4 GB. A single search of a small archive never waits for
them, and a long run takes at most twice the best time.
"""
NUMPY_BLOCK_BYTES = 1 << 19
"""Stored rows that numpy compares at a time: the intermediate results stay in the cache."""


@dataclass
class Hamming(StoredSetIndex):
    """Search by Hamming distance; between sets, by the median over query rows of the minimum over target rows."""

    name: ClassVar[str] = "hamming"
    distance_name: ClassVar[str] = "differing bits"
    compared_: int = field(default=0, init=False, repr=False, compare=False)
    prepared_: tuple[int, SinglesSearch | None] = field(default=(-1, None), init=False, repr=False, compare=False)

    def refuses(self, spec: CodeSpec) -> str:
        """Accept bits, single or sets."""
        return "" if spec.kind == "bits" else f"hamming compares bits, not {spec}: use cosine, or an encoder of bits"

    def row_distances(self, query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
        """Return the number of differing bits between rows: float64 (n, m)."""
        return differing_bits(query, target)

    def _unfit(self, code: Code) -> str:
        return "" if code.rows.dtype == np.uint8 else f"rows are {code.rows.dtype}, not packed bits (uint8)"

    def _fields(self, codes: Sequence[Code]) -> tuple[Sequence[int], Mapping[str, NDArray[Any]]]:
        return [len(code) for code in codes], {"words": words(np.concatenate([code.rows for code in codes]))}

    def near(self, codes: Sequence[Code], wanted: Mask | None, k: int) -> list[Near]:
        """Compare in numpy at first, then with the compiled kernels once there is enough work to load them."""
        rows, counts = _together(codes)
        compiled = self._compiled(len(rows), wanted)
        self.compared_ += self._work(len(rows), wanted)
        if compiled:
            keys = _compiled_find()(self.store_, rows, counts, wanted, k, self.direction)
            return [*zip(self.store_.ranking.slots[keys & RANK], (keys >> RANK_BITS) / 4, strict=True)]
        slots, ends = self.store_.slots(wanted), [0, *accumulate(counts)]
        queries = [rows[first:last] for first, last in pairwise(ends)]
        return [(slots, _numpy_distances(self.store_, query, wanted, self.direction)) for query in queries]

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        """Return at most k hits, nearest first, equal distances by slide id."""
        if among is None and self.compared_ >= COMPILED_AFTER and len(code.rows) == 1 and k > 0:
            store = self.store_
            version, prepared = self.prepared_
            if version != store.version:
                prepared = _prepared(store) if store.single else None
                self.prepared_ = store.version, prepared
            if prepared is not None and store.candidates(code.space, None) is None and k <= len(prepared.ids):
                self.check(code)
                names = prepared.ids
                keys = prepared.keys(words(code.rows), k)
                return [Hit(names[key & RANK], (key >> RANK_BITS) / 4) for key in keys]
        return super().search(code, k, among)

    def _nearest(self, codes: Sequence[Code], wanted: Mask | None, k: int) -> list[list[Hit]]:
        """Take hits directly from the keys of the compiled kernels, which are fully ordered, including ties."""
        rows, counts = _together(codes)
        if self.compared_ < COMPILED_AFTER and not self._compiled(len(rows), wanted):
            return super()._nearest(codes, wanted, k)
        self.compared_ = COMPILED_AFTER  # nothing to count from now on
        names = self.store_.ranking.ids
        found = _compiled_find()(self.store_, rows, counts, wanted, k, self.direction).tolist()
        return [[Hit(names[key & RANK], (key >> RANK_BITS) / 4) for key in sorted(keys)] for keys in found]

    def _compiled(self, rows: int, wanted: Mask | None) -> bool:
        """Return whether to use the compiled kernels now, for this number of query rows."""
        return self.compared_ + self._work(rows, wanted) >= COMPILED_AFTER

    def _work(self, rows: int, wanted: Mask | None) -> int:
        """Return how many bytes are compared for this number of query rows."""
        share = 1.0 if wanted is None else np.count_nonzero(wanted) / len(wanted)
        return int(rows * self.store_.nbytes * share)


def differing_bits(query: NDArray[Any], target: NDArray[Any]) -> Float64:
    """Return the number of differing bits of every query row and every target row, packed: float64 (n, m)."""
    stored, between = words(target), np.empty((len(query), len(target)))
    for row, out in zip(words(query), between):
        out[:] = np.bitwise_count(stored ^ row).sum(axis=1, dtype=np.int64)
    return between


def _together(codes: Sequence[Code]) -> tuple[NDArray[np.uint64], list[int]]:
    """Return the rows of all codes as words, and how many each code has."""
    if len(codes) == 1:
        return words(codes[0].rows), [len(codes[0].rows)]
    return words(np.concatenate([code.rows for code in codes])), [len(code.rows) for code in codes]


def _numpy_distances(
    store: SlideStore, query: NDArray[np.uint64], wanted: Mask | None, direction: Direction
) -> Float64:
    """Return the set distance from the query, uint64 (rows, words), to every wanted slide, in slot order.

    Slower per byte than the compiled kernels, with nothing to load or compile.
    """
    found = [np.empty(0, np.float64)]
    for fields, starts in blocks(store, wanted, NUMPY_BLOCK_BYTES):
        stored = fields["words"]
        between = np.empty((len(query), len(stored)), np.int32)
        for row, out in zip(query, between):
            np.einsum("ij->i", np.bitwise_count(stored ^ row), out=out, dtype=np.int32, casting="unsafe")
        found.append(set_distances(between, starts, direction))
    return np.concatenate(found)


@cache
def _compiled_find() -> Callable[..., Int64]:
    """Import numba, which is slow, and return the search that uses it."""
    from .hamming_compiled import find

    return find


def _prepared(store: SlideStore) -> SinglesSearch:
    from .hamming_compiled import SinglesSearch

    return SinglesSearch(store)


def words(packed: NDArray[Any]) -> NDArray[np.uint64]:
    """Pad packed bits, uint8 (n, bytes), with zeros to whole 64-bit words: uint64 (n, words)."""
    count, width = packed.shape
    padded = np.zeros((count, (width + 7) // 8 * 8), np.uint8)
    padded[:, :width] = packed
    return padded.view(np.uint64)
