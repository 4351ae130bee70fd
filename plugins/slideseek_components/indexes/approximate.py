"""What approximate indexes share: exact distances and masks around a structure that only proposes candidates.

Codes are kept in an exact index. A structure (a forest, inverted lists, a graph) proposes slides, whose distances are
computed exactly. Distances, order, masks, spaces and removal are therefore those of the exact index; the only
difference is that a neighbour may be missing. How often one is missing is measured whenever a structure is built.

A structure cannot grow. Slides added after it was built are all candidates, measured exactly, until a rebuild is
worthwhile. Adding one slide to a large index therefore costs almost nothing and never lowers the recall.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import SlideseekError
from slideseek.interfaces import BatchIndex, MeasuresRows, StatesExactness
from slideseek.types import Code, CodeSpec, Float32, Float64, Hit, Int64, Mask, UInt8

from . import folder as files
from .cosine import Cosine
from .hamming import Hamming
from .recall import RECALL_AT, LowRecallWarning, Neighbours, RecallSample
from .stored_index import StoredIndex, nearest

EXACT = "exact"
ADDED_SHARE = 0.1
"""Slides added since a structure was built, as a share of those in it, beyond which a search rebuilds it."""


@dataclass
class SpaceStructure:
    """The structure of one space. slots: int64 (n,), the slot of each code in it. recall: measured when built."""

    slots: Int64
    neighbours: Neighbours
    recall: float


@dataclass
class ApproximateIndex(BatchIndex, StatesExactness, MeasuresRows, ABC):
    """Search through one structure per space, built on first use.

    If the archive or the mask is small, the few candidates are searched exactly, which is also faster.
    """

    code_revision: ClassVar[int] = 1
    name: ClassVar[str]
    exact: ClassVar[bool] = False
    exact_below: int = field(default=1_000, metadata={"at_query": True})
    seed: int = 0
    exact_: StoredIndex = field(default_factory=Hamming, init=False, repr=False, compare=False)
    parts_: dict[str, SpaceStructure] = field(default_factory=dict, init=False, repr=False, compare=False)
    built_: tuple[int, int] = field(default=(0, 0), init=False, repr=False, compare=False)
    covered_: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.exact_below < 0:
            raise ValueError(f"exact_below: 0 or more slides, not {self.exact_below}")

    @abstractmethod
    def refuses(self, spec: CodeSpec) -> str:
        """Return "" if codes of this spec are accepted, else the reason."""

    @abstractmethod
    def _build(self, wanted: Mask, sample: RecallSample) -> Neighbours:
        """Build the structure of the wanted slots; `sample` measures its recall, for an index that tunes itself."""

    @abstractmethod
    def _shortfall(self, recall: float) -> str:
        """Return "" if a structure's recall is high enough, else its shortfall and a fix."""

    @abstractmethod
    def _open(self, path: Path, settings: Mapping[str, Any]) -> Neighbours:
        """Open a structure that was written to `path`."""

    def _near(self, neighbours: Any, row: NDArray[Any], count: int) -> Int64:
        """Ask a structure for about `count` codes; an index with an option of the effort passes it on."""
        found: Int64 = neighbours.near(row, count)
        return found

    def _exact_for(self, code: Code) -> StoredIndex:
        """Return an empty exact index for the same kind of codes."""
        return Hamming() if code.rows.dtype == np.uint8 else Cosine()

    @property
    def distance_name(self) -> str:
        """What a distance is: that of the exact index around which candidates are proposed."""
        return self.exact_.distance_name

    def row_distances(self, query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
        """Return the exact distance between rows: float64 (n, m)."""
        return self.exact_.row_distances(query, target)

    @property
    def ids(self) -> Sequence[str]:
        """Slide ids in the index; masks follow this order."""
        return self.exact_.ids

    @property
    def nbytes(self) -> int:
        """Bytes used by the codes and the structures."""
        return self.exact_.nbytes + sum(part.neighbours.nbytes for part in self.parts_.values())

    @property
    def recalls(self) -> Mapping[str, float]:
        """Share of the 10 nearest that were found when the structures were built, by space."""
        return {space: part.recall for space, part in self.parts_.items()}

    def add(self, codes: Sequence[Code]) -> None:
        """Add codes, all or none; they are searched exactly until the structures are rebuilt."""
        if not codes:
            return
        for code in codes:
            self._check_single(code)
        if self.exact_.ids:
            self.exact_.add(codes)
        else:
            exact = self._exact_for(codes[0])
            exact.add(codes)
            self.exact_, self.parts_, self.built_, self.covered_ = exact, {}, (0, 0), 0

    def remove(self, slide_ids: Sequence[str]) -> None:
        """Remove slides, all or none; an unknown id is an error."""
        self.exact_.remove(slide_ids)

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        """Return at most k hits, nearest first, equal distances by slide id; a true neighbour may be missing."""
        self._check_single(code)
        exact = self.exact_ if self.exact_.ids else self._exact_for(code)
        self.build()
        part = self.parts_.get(code.space)
        if part is None or k < 1:
            return exact.search(code, k, among)
        exact.check(code)
        wanted = exact.store_.candidates(code.space, among)
        proposed = self._proposed(part, code, k, None if wanted is None else wanted[part.slots])
        if proposed is None:
            return exact.search(code, k, among)
        near = np.zeros(len(exact.store_.slot_ids), np.bool_)
        near[part.slots[proposed]] = True
        near[self.covered_ :] = True if wanted is None else wanted[self.covered_ :]
        return nearest(*exact.near([code], near, k)[0], exact.store_.slot_ids, k)

    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        """Return `search(code, k, among)` for every code, in order."""
        return [self.search(code, k, among) for code in codes]

    def build(self, whole: bool = False) -> None:
        """Rebuild the structures if many slides were added, or slots renumbered, since they were last built.

        whole: also if a single slide was added.
        """
        store = self.exact_.store_
        now = store.version, store.layout
        if self.built_ == now:
            return
        added = len(store.slot_ids) - self.covered_
        if not whole and self.built_[1] == store.layout and added <= ADDED_SHARE * self.covered_:
            return
        self.parts_ = {}
        for space in store.spaces:
            wanted = store.candidates(space, None)
            slots = store.slots(wanted)
            if len(slots) > max(self.exact_below, RECALL_AT):
                mask = np.zeros(len(store.slot_ids), np.bool_)
                mask[slots] = True
                sample = RecallSample.of(self.exact_, mask, self.seed)
                neighbours = self._build(mask, sample)
                self.parts_[space] = SpaceStructure(slots, neighbours, sample.recall(neighbours))
        self.built_, self.covered_ = now, len(store.slot_ids)
        self._warn()

    def save(self, folder: Path) -> None:
        """Write the index into the existing empty `folder`; removed slides are not written."""
        self.exact_.store_.compact()
        self.build(whole=True)
        (folder / EXACT).mkdir()
        self.exact_.save(folder / EXACT)
        parts: list[dict[str, Any]] = []
        written: list[str] = []
        for number, (space, part) in enumerate(self.parts_.items()):
            names = {"slots": f"slots-{number}.npy", "structure": f"structure-{number}.bin"}
            files.write_array(folder / names["slots"], part.slots)
            part.neighbours.write(folder / names["structure"])
            parts.append({**names, "space": space, "recall": part.recall, "settings": dict(part.neighbours.settings)})
            written += names.values()
        files.write_header(folder, self.name, {"exact": self.exact_.name, "parts": parts}, written)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; files are memory-mapped where possible, so they must stay in place."""
        header = files.read_header(folder, self.name)
        exact = Hamming() if header["exact"] == Hamming.name else Cosine()
        exact.load(folder / EXACT)
        opened = {}
        for part in header["parts"]:
            slots = np.load(files.checked(folder, part["slots"], header), allow_pickle=False)
            neighbours = self._open(files.checked(folder, part["structure"], header), part["settings"])
            opened[part["space"]] = SpaceStructure(slots, neighbours, part["recall"])
        self.exact_, self.parts_ = exact, opened
        self.built_, self.covered_ = (exact.store_.version, exact.store_.layout), len(exact.store_.slot_ids)
        self._warn()

    def _proposed(self, part: SpaceStructure, code: Code, k: int, wanted: Mask | None) -> Int64 | None:
        """Request more and more candidates until k of them are wanted; None if an exact search is better.

        wanted: bool (len(part.slots),) or None for all. Numbers in the result are relative to the part.
        """
        total = len(part.slots)
        allowed = total if wanted is None else int(np.count_nonzero(wanted))
        if allowed <= max(self.exact_below, k):
            return None
        count = k * total // allowed + 1
        while count <= total // 2:
            near = self._near(part.neighbours, code.rows[0], count)
            kept = near if wanted is None else near[wanted[near]]
            if len(kept) >= k:
                return kept
            count *= 4
        return None

    def _warn(self) -> None:
        """Warn about structures with low recall, when they are built and whenever they are opened."""
        for space, part in self.parts_.items():
            if short := self._shortfall(part.recall):
                warnings.warn(f"{short} (site {space})" if space else short, LowRecallWarning, stacklevel=3)

    def _check_single(self, code: Code) -> None:
        if len(code) != 1:
            cause = f"index {self.name!r}, code of slide {code.slide_id!r}: {len(code)} rows, it stores one per slide"
            raise SlideseekError(cause, "use hamming or cosine for sets")
