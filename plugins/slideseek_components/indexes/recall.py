"""Measure how many true neighbours a structure finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Code, Int64, Mask

from .store import SlideStore, blocks
from .stored_index import StoredIndex

RECALL_AT, RECALL_QUERIES = 10, 100
BLOCK_BYTES = 1 << 24


class LowRecallWarning(UserWarning):
    """A structure misses more true neighbours than it should."""


class Neighbours(Protocol):
    """A structure over n single codes, numbered 0 to n - 1."""

    @property
    def nbytes(self) -> int:
        """Bytes used by the structure."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What is needed to open it in addition to the file, as JSON values."""
        ...

    def near(self, row: NDArray[Any], count: int) -> Int64:
        """Return the numbers of about `count` codes near the row of a code, (columns,), in any order."""
        ...

    def write(self, path: Path) -> None:
        """Write the structure to a file."""
        ...


@dataclass(frozen=True)
class RecallSample:
    """Stored codes used as queries, each without itself among its neighbours.

    slots: int64 (n,), the slots of the structure's codes. places: where in `slots` the queries are. cuts: the distance
    of the 10th nearest other slide of each query.
    """

    exact: StoredIndex
    slots: Int64
    places: Sequence[int]
    codes: Sequence[Code]
    cuts: Sequence[float]

    @classmethod
    def of(cls, exact: StoredIndex, wanted: Mask, seed: int) -> RecallSample:
        """Draw queries from the wanted slots and find their true neighbours; needs more than 10 slides."""
        slots = np.flatnonzero(wanted)
        drawn = np.random.default_rng(seed).choice(len(slots), min(RECALL_QUERIES, len(slots)), replace=False)
        places = np.sort(drawn).tolist()
        chosen = np.zeros(len(wanted), np.bool_)
        chosen[slots[places]] = True
        rows = np.concatenate(list(stored_rows(exact.store_, chosen)))
        codes = [Code("", row[None]) for row in rows]
        cuts = []
        for place, (found, distances) in zip(places, exact.near(codes, wanted, RECALL_AT + 1), strict=True):
            cuts.append(float(np.sort(distances[found != slots[place]])[RECALL_AT - 1]))
        return cls(exact, slots, places, codes, cuts)

    def recall(self, neighbours: Neighbours) -> float:
        """Return the share of the 10 nearest that the structure proposes; a tie with the 10th counts as found."""
        found = 0
        for place, code, cut in zip(self.places, self.codes, self.cuts, strict=True):
            proposed = neighbours.near(code.rows[0], RECALL_AT + 1)
            near = np.zeros(len(self.exact.store_.slot_ids), np.bool_)
            near[self.slots[proposed[proposed != place]]] = True
            if near.any():
                distances = self.exact.near([code], near, min(RECALL_AT, int(near.sum())))[0][1]
                found += min(RECALL_AT, int((distances <= cut).sum()))
        return found / (RECALL_AT * len(self.codes))


def stored_rows(store: SlideStore, wanted: Mask) -> Iterator[NDArray[Any]]:
    """Yield the rows of the wanted single codes in blocks, as they were added: packed bits or floats, (n, columns)."""
    for fields, _ in blocks(store, wanted, BLOCK_BYTES):
        yield fields["rows"] if "rows" in fields else fields["words"].view(np.uint8)[:, : store.columns]
