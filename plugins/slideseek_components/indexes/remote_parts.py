"""What an index on shards is made of: what is saved there, which slides, and the local index of those not saved yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from slideseek.types import Code, Filter, SlideRecord

from .cosine import Cosine
from .hamming import Hamming
from .shards import Near, Shape, Shard
from .sparse import Sparse

SPARSE_SHARE = 0.25
"""Share of non-zeros below which float codes are stored as sparse."""


@dataclass(frozen=True)
class Saved:
    """What the shards hold. tokens: one per shard. version: of the records saved with the codes."""

    name: str
    shards: Sequence[Shard]
    tokens: Sequence[int]
    shape: Shape
    slides: int
    total: int
    nbytes: int
    version: int


class LazyIds(Sequence[str]):
    """Sorted slide ids whose number is known; the list itself is fetched when it is first needed."""

    def __init__(self, count: int, fetch: Callable[[], list[str]]) -> None:
        self._count, self._fetch = count, fetch
        self._listed: list[str] | None = None

    def _all(self) -> list[str]:
        if self._listed is None:
            self._listed = self._fetch()
        return self._listed

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        return self._all()[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())


def enough(ask: Callable[[int], Near], k: int, passes: Callable[[str], bool] | None) -> Near:
    """Return the k nearest that pass; more are asked for until there are enough."""
    if passes is None:
        return ask(k)
    count = 4 * k
    while True:
        found = ask(count)
        kept = [pair for pair in found if passes(pair[0])]
        if len(kept) >= k or len(found) < count:
            return kept
        count *= 4


def local_index(codes: Sequence[Code]) -> Hamming | Cosine | Sparse:
    """Return the local exact index of some codes."""
    rows = codes[0].rows
    index: Hamming | Cosine | Sparse
    if rows.dtype == np.uint8:
        index = Hamming()
    elif all(len(code) == 1 for code in codes) and np.count_nonzero(rows) < SPARSE_SHARE * rows.size:
        index = Sparse()
    else:
        index = Cosine()
    index.add(codes)
    return index


def home_of(slide_id: str, shards: int) -> int:
    """Return the number of the shard that keeps a slide."""
    return crc32(slide_id.encode()) % shards


def record_of(records: Mapping[str, SlideRecord], slide_id: str) -> SlideRecord:
    return records.get(slide_id) or SlideRecord(slide_id, "")


def listed(sign: str, slide_ids: Iterable[str]) -> list[Filter]:
    return [Filter("id", False, sign, tuple(sorted(slide_ids)))] if slide_ids else []
