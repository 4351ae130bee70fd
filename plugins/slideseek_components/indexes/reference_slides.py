"""How far each slide lies from a few reference slides: what tells a hub from a slide that is truly similar.

Some slides are near to everything: those with many patches, because a minimum over more rows is smaller, and those of
common tissue. Taking off a share of how near a slide is to slides in general lets the others be found (centring:
Suzuki et al., "Centering similarity measures to reduce hubs", EMNLP 2013; its local form: Hara et al., "Localized
centering", AAAI 2015).

The references of a space are the slides whose ids have the smallest SHA-256. They depend on the ids alone, so the order
in which slides were added changes nothing, and a new slide rarely becomes one.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Int32, Int64, Mask

from .store import SlideStore

REFERENCES = 64
UNKNOWN = -1

Measure: TypeAlias = Callable[[int, Mask], Int64]
"""Returns the distances of the slide in a slot to the wanted slots, in slot order, in quarters of a bit."""


class ReferenceTable:
    """Distances of every slide to the references of its space, kept up to date with a store.

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
