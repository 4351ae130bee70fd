"""The part of an exact index that does not depend on its distance: checks, spaces, and ranking the nearest slides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import SlideseekError
from slideseek.interfaces import BatchIndex, MeasuresRows, MeasuresSets, StatesExactness
from slideseek.types import Code, CodeSpec, Float64, Hit, Int64, Mask

from .median_of_minima import DIRECTIONS, Direction, set_distances
from .store import SlideStore

Near: TypeAlias = tuple[Int64, Float64]
"""Slots and the distances of the slides in them, side by side."""


@dataclass
class StoredIndex(BatchIndex, StatesExactness, MeasuresRows, ABC):
    """Keep slides in a `SlideStore` and rank distances; a subclass defines the rows and the distance."""

    code_revision: ClassVar[int] = 1
    name: ClassVar[str]
    exact: ClassVar[bool] = True
    store_: SlideStore = field(default_factory=SlideStore, init=False, repr=False, compare=False)

    @abstractmethod
    def refuses(self, spec: CodeSpec) -> str:
        """Return "" if codes of this spec are accepted, else the reason."""

    @abstractmethod
    def _unfit(self, code: Code) -> str:
        """Return "" if the code can be stored or searched with, else what is wrong."""

    @abstractmethod
    def _fields(self, codes: Sequence[Code]) -> tuple[Sequence[int], Mapping[str, NDArray[Any]]]:
        """Return the number of rows of each code in the store, and their fields."""

    @abstractmethod
    def near(self, codes: Sequence[Code], wanted: Mask | None, k: int) -> list[Near]:
        """Return for each query some slots and their distances, including the k nearest (of equals, the first by id).

        wanted: bool (slots,), the candidates, at least k of them, or None for every slot.
        """

    def check(self, code: Code) -> None:
        """Raise an error if the index cannot search with the code."""
        self._check(code, self.store_.columns or code.rows.shape[1])

    @property
    def ids(self) -> Sequence[str]:
        """Slide ids in the index; masks follow this order."""
        return self.store_.ids

    @property
    def nbytes(self) -> int:
        """Bytes of the stored rows; removed slides count until they are compacted away."""
        return self.store_.nbytes

    def add(self, codes: Sequence[Code]) -> None:
        """Add codes, all or none; a slide id already in the index is an error."""
        if not codes:
            return
        columns = self.store_.columns or codes[0].rows.shape[1]
        for code in codes:
            self._check(code, columns)
        counts, fields = self._fields(codes)
        self.store_.add(columns, [code.slide_id for code in codes], [code.space for code in codes], counts, fields)

    def remove(self, slide_ids: Sequence[str]) -> None:
        """Remove slides, all or none; an unknown id is an error."""
        self.store_.remove(slide_ids)

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        """Return at most k hits, nearest first, equal distances by slide id."""
        return self._search([code], k, among)[0]

    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        """Return `search(code, k, among)` for every code, in order."""
        places: dict[str, list[int]] = {}
        for place, code in enumerate(codes):
            places.setdefault(code.space, []).append(place)
        if len(places) == 1:
            return self._search(codes, k, among)
        hits: list[list[Hit]] = [[] for _ in codes]
        for together in places.values():
            found = self._search([codes[place] for place in together], k, among)
            for place, answer in zip(together, found, strict=True):
                hits[place] = answer
        return hits

    def _search(self, codes: Sequence[Code], k: int, among: Mask | None) -> list[list[Hit]]:
        """Search with codes of one space."""
        if k < 1:
            raise ValueError(f"k: at least 1, not {k}")
        columns = self.store_.columns or codes[0].rows.shape[1]
        for code in codes:
            self._check(code, columns)
        wanted = self.store_.candidates(codes[0].space, among)
        size = len(self.store_.slot_ids) if wanted is None else int(np.count_nonzero(wanted))
        return self._nearest(codes, wanted, min(k, size)) if size else [[] for _ in codes]

    def _nearest(self, codes: Sequence[Code], wanted: Mask | None, k: int) -> list[list[Hit]]:
        """Return the k nearest of the wanted slides for each code; at least k are wanted."""
        ids = self.store_.slot_ids
        return [nearest(slots, distances, ids, k) for slots, distances in self.near(codes, wanted, k)]

    def save(self, folder: Path) -> None:
        """Write the index into the existing empty `folder`; removed slides are not written."""
        self.store_.save(folder, self.name)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; row files are memory-mapped, so they must stay in place while it is used."""
        self.store_.load(folder, self.name)

    def _check(self, code: Code, columns: int) -> None:
        wrong = self._unfit(code)
        if not wrong and not len(code.rows):
            wrong = "the code has no rows"
        if not wrong and code.rows.shape[1] != columns:
            wrong = f"rows have {code.rows.shape[1]} columns, the index has {columns}"
        if not wrong and code.rows.dtype == np.float32 and not np.isfinite(code.rows).all():
            wrong = "rows have values that are not finite"
        if wrong:
            raise SlideseekError(f"index {self.name!r}, code of slide {code.slide_id!r}: {wrong}", "encode it again")


@dataclass
class StoredSetIndex(StoredIndex, MeasuresSets):
    """A stored index whose slides may be sets of rows, compared by the median of minima.

    direction: which set the median is taken over. `query` is Yottixel's rule (Kalra et al., Medical Image Analysis
    2020), `target` the other way round, `symmetric` the mean of both. It has no effect on single codes.
    """

    direction: Direction = field(default="query", metadata={"at_query": True})

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction: one of {', '.join(DIRECTIONS)}, not {self.direction!r}")

    def set_distance(self, between: Float64) -> float:
        """Return the median of minima of the row distances `between`, float64 (query rows, target rows)."""
        return float(set_distances(between, np.array([0, between.shape[1]]), self.direction)[0])


def nearest(slots: Int64, distances: Float64, ids: Sequence[str], k: int) -> list[Hit]:
    """Return the k nearest, nearest first, equal distances by slide id.

    slots, distances: (n,), side by side; ids is indexed by slot. Every slide tied at the cut is compared by id, so a
    partial sort never decides between equals.
    """
    if len(distances) > 4 * k:  # else sorting everything is faster
        places = np.flatnonzero(distances <= np.partition(distances, k - 1)[k - 1])
        slots, distances = slots[places], distances[places]
    names = [ids[slot] for slot in slots.tolist()]
    return [Hit(slide_id, distance) for distance, slide_id in sorted(zip(distances.tolist(), names))[:k]]
