"""Exact Hamming distance between codes of bits, and the median of minima between sets of them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slideseek.interfaces import ShiftsDistances
from slideseek.options import ADDED_LATER
from slideseek.types import Code, CodeSpec, Float32, Float64, Hit, Int32, Int64, Mask, UInt8

from . import folder as files
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


REFERENCES = 64
UNKNOWN = -1

Measure: TypeAlias = Callable[[int, Mask], Int64]
"""Returns the distances of the slide in a slot to the wanted slots, in slot order, in quarters of a bit."""


class ReferenceTable:
    """Distances of every slide to the references of its space, kept up to date with a store: what tells hubs.

    Some slides are near to everything: those with many patches, because a minimum over more rows is smaller, and those
    of common tissue. Taking off a share of how near a slide is to slides in general lets the others be found (centring:
    Suzuki et al., "Centering similarity measures to reduce hubs", EMNLP 2013; its local form: Hara et al., "Localized
    centering", AAAI 2015). The references of a space are the slides whose ids have the smallest SHA-256. They depend on
    the ids alone, so the order in which slides were added changes nothing, and a new slide rarely becomes one.

    far: int32 (slots, REFERENCES), in quarters of a bit; column i belongs to the i-th reference of the slide's space,
    and `UNKNOWN` is a reference that is missing or the slide itself.
    """

    def __init__(self) -> None:
        self.far: Int32 = np.empty((0, REFERENCES), np.int32)
        self._ids: list[str] = []
        self._references: dict[str, list[str]] = {}
        self._version: tuple[int, int] | None = None
        self._gone: set[str] = set()
        self._shifts: tuple[float, Int64] | None = None
        self._lock = threading.RLock()

    def forget(self, slide_ids: Iterable[str]) -> None:
        """Drop what is known of slides that were removed: another code may be added under the same id."""
        self._gone.update(slide_ids)

    def restore(self, store: SlideStore, far: Int32) -> None:
        """Take a table, in the order of the store's slots, made of the same slides."""
        self.far, self._ids, self._gone = far, list(store.slot_ids), set()
        self._references = {space: _references(store, space) for space in store.spaces}
        self._version = store.version, store.layout

    def shifts(self, store: SlideStore, share: float, measure: Measure) -> Int64:
        """Return what to add to the distance of each slot, in quarters of a bit: int64 (slots,), none negative.

        A slide's nearness is its mean distance to the nearer half of its references. The farthest slide of a space is
        shifted by 0, any other by `share` of how much nearer it is. What is not known yet is measured.
        """
        with self._lock:
            if self._version != (store.version, store.layout) or self._gone:
                self._update(store, measure)
                self._shifts = None
            if self._shifts is None or self._shifts[0] != share:
                self._shifts = share, _shifts(self.far, store, share)
            return self._shifts[1]

    def _update(self, store: SlideStore, measure: Measure) -> None:
        """Measure new slides against all references, and all slides against new references."""
        old = {name: row for row, name in enumerate(self._ids) if name not in self._gone}
        far = np.full((len(store.slot_ids), REFERENCES), UNKNOWN, np.int32)
        references = {space: _references(store, space) for space in store.spaces}
        for number, space in enumerate(store.spaces):
            here = np.flatnonzero(store.alive & (store.slot_spaces == number))
            before = {name: column for column, name in enumerate(self._references.get(space, []))}
            rows = np.array([old.get(store.slot_ids[slot], -1) for slot in here.tolist()], np.int64)
            for column, name in enumerate(references[space]):
                slot = store.slot(name)
                if name in before and name not in self._gone:
                    kept = rows >= 0
                    far[here[kept], column] = self.far[rows[kept], before[name]]
                wanted = np.zeros(len(far), np.bool_)
                wanted[here] = far[here, column] == UNKNOWN
                wanted[slot] = False
                if wanted.any():
                    far[wanted, column] = measure(slot, wanted)
        self.far, self._ids, self._references, self._gone = far, list(store.slot_ids), references, set()
        self._version = store.version, store.layout


def _shifts(far: Int32, store: SlideStore, share: float) -> Int64:
    known = far != UNKNOWN
    counts = known.sum(axis=1)
    half = (counts + 1) // 2
    ordered = np.sort(np.where(known, far, np.iinfo(np.int32).max), axis=1).astype(np.int64)
    nearer = np.where(np.arange(REFERENCES) < half[:, None], ordered, 0).sum(axis=1)
    nearness = nearer / np.maximum(half, 1)
    found = np.zeros(len(far), np.int64)
    for number in range(len(store.spaces)):
        here = store.alive & (store.slot_spaces == number) & (counts > 0)
        if here.any():
            found[here] = np.rint(share * (nearness[here].max() - nearness[here]))
    return found


def _references(store: SlideStore, space: str) -> list[str]:
    """Return the ids of a space's references, by their SHA-256."""
    number = store.spaces.index(space)
    here: NDArray[np.int64] = np.flatnonzero(store.alive & (store.slot_spaces == number))
    names: Sequence[str] = [store.slot_ids[slot] for slot in here.tolist()]
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[:REFERENCES]


@dataclass
class Hamming(StoredSetIndex, ShiftsDistances):
    """Search by Hamming distance; between sets, by the median over query rows of the minimum over target rows.

    centring: share of a slide's nearness to slides in general that is made up for, so that no slide is found by every
    query; 0 ranks by the distance alone. Nearness is the mean distance to the nearer half of 64 reference slides. What
    is added to the distance of a slide depends on the slides in the index, not on the query.
    """

    name: ClassVar[str] = "hamming"
    distance_name: ClassVar[str] = "differing bits"
    centring: float = field(default=0.0, metadata=ADDED_LATER)
    tables_: dict[Direction, ReferenceTable] = field(default_factory=dict, init=False, repr=False, compare=False)
    compared_: int = field(default=0, init=False, repr=False, compare=False)
    prepared_: tuple[int, SinglesSearch | None] = field(default=(-1, None), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.centring <= 1:
            raise ValueError(f"centring: must be from 0 to 1, not {self.centring}")

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
        return self._measured(*_together(codes), wanted, k, self._shifts())

    def _measured(
        self, rows: NDArray[np.uint64], counts: Sequence[int], wanted: Mask | None, k: int, shifts: Int64 | None
    ) -> list[Near]:
        compiled = self._compiled(len(rows), wanted)
        self.compared_ += self._work(len(rows), wanted)
        if compiled:
            keys = _compiled_find()(self.store_, rows, counts, wanted, k, self.direction, shifts)
            return [*zip(self.store_.ranking.slots[keys & RANK], (keys >> RANK_BITS) / 4, strict=True)]
        slots, ends = self.store_.slots(wanted), [0, *accumulate(counts)]
        added = 0.0 if shifts is None else shifts[slots] / 4
        queries = [rows[first:last] for first, last in pairwise(ends)]
        return [(slots, _numpy_distances(self.store_, query, wanted, self.direction) + added) for query in queries]

    def _shifts(self) -> Int64 | None:
        """Return what is added to the distance of each slot, in quarters of a bit: int64 (slots,); None for nothing."""
        if not self.centring:
            return None
        table = self.tables_.setdefault(self.direction, ReferenceTable())
        return table.shifts(self.store_, self.centring, self._from_slot)

    def _from_slot(self, slot: int, wanted: Mask) -> Int64:
        """Return the distances of one slide to the wanted slots, in slot order, in quarters of a bit."""
        rows = self.store_.rows(slot, "words")
        slots, distances = self._measured(rows, [len(rows)], wanted, int(np.count_nonzero(wanted)), None)[0]
        return np.rint(4 * distances[np.argsort(slots)]).astype(np.int64)

    def shift(self, slide_id: str) -> float:
        """Return the bits that a search adds to the distance of a slide."""
        shifts = self._shifts()
        return 0.0 if shifts is None else float(shifts[self.store_.slot(slide_id)]) / 4

    def remove(self, slide_ids: Sequence[str]) -> None:
        """Remove slides, all or none; an unknown id is an error."""
        super().remove(slide_ids)
        for table in self.tables_.values():
            table.forget(slide_ids)

    def save(self, folder: Path) -> None:
        """Write the index into the existing empty `folder`; removed slides are not written."""
        self.store_.compact()
        if self._shifts() is not None:
            files.write_array(folder / _table_file(self.direction), self.tables_[self.direction].far)
        super().save(folder)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; row files are memory-mapped, so they must stay in place while it is used."""
        super().load(folder)
        self.tables_ = {}
        path = folder / _table_file(self.direction)
        if self.centring and path.exists():
            far = files.map_array(path, np.dtype(np.int32), (len(self.store_.slot_ids), REFERENCES))
            self.tables_[self.direction] = ReferenceTable()
            self.tables_[self.direction].restore(self.store_, far)

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        """Return at most k hits, nearest first, equal distances by slide id."""
        plain = among is None and not self.centring
        if plain and self.compared_ >= COMPILED_AFTER and len(code.rows) == 1 and k > 0:
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
        shifts = self._shifts()
        if self.compared_ < COMPILED_AFTER and not self._compiled(len(rows), wanted):
            return super()._nearest(codes, wanted, k)
        self.compared_ = COMPILED_AFTER  # nothing to count from now on
        names = self.store_.ranking.ids
        found = _compiled_find()(self.store_, rows, counts, wanted, k, self.direction, shifts).tolist()
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


def _table_file(direction: Direction) -> str:
    return f"references-{direction}.npy"


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
