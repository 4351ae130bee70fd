"""The archive's slides in memory, up to 100,000: lookup by key, filters, facet counts and pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.archive.slide_table import SlideRow
from slideseek.types import Int32, Mask, SlideRecord
from slideseek_apps.viewer.opaque_slide_keys import slide_key

NAMED_FACETS = ("site", "label", "center")
MAX_FACET_VALUES = 60
"""A free field with more values than this (an age, a date, a number) is not useful as a facet."""

FEW_VALUES = 8
"""In a small archive, a free field with up to this many values is a facet even if most values are unique."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A slide in the list. row: it in the catalogue. version: changes whenever its pixels may have changed."""

    key: str
    record: SlideRecord
    row: SlideRow
    version: str


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter. picks: by facet, the accepted values. text: words that must all occur in a slide's fields."""

    picks: Mapping[str, frozenset[str]]
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Column:
    values: Sequence[str]
    codes: Int32


class SlideDirectory:
    """All slides in id order. Rebuilt when the catalogue changes; immutable, so any thread may read it."""

    def __init__(self, rows: Iterable[SlideRow]) -> None:
        self.entries = [Entry(slide_key(row.id), row.record, row, _version(row)) for row in rows]
        self._by_key = {entry.key: at for at, entry in enumerate(self.entries)}
        self._by_id = {entry.record.id: at for at, entry in enumerate(self.entries)}
        free = sorted({name for entry in self.entries for name in entry.record.columns})
        self.fields: tuple[str, ...] = tuple(free)
        stated = {"stain"}.union(*(entry.record.fields for entry in self.entries))
        self._columns = {name: self._column(_named(name)) for name in NAMED_FACETS}
        for name in free:
            column = self._column(_free(name))
            # What was measured is a number, apart from the stain.
            if name in stated and name not in self._columns and self._groups(column):
                self._columns[name] = column
        self._haystack = [_words(entry.record) for entry in self.entries]
        self._orders: dict[str, Sequence[int]] = {"id": range(len(self.entries))}

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def facets(self) -> tuple[str, ...]:
        """The fields to filter by: those with at least one known value."""
        return tuple(name for name, column in self._columns.items() if any(column.values))

    def get(self, key: str) -> Entry | None:
        """Return the slide with a key, or None."""
        at = self._by_key.get(key)
        return None if at is None else self.entries[at]

    def of_id(self, slide_id: str) -> Entry | None:
        """Return the slide with an id, or None."""
        at = self._by_id.get(slide_id)
        return None if at is None else self.entries[at]

    @property
    def sites(self) -> list[str]:
        """The sites of the slides, sorted."""
        return sorted({entry.record.site for entry in self.entries} - {""})

    def page(self, selection: Selection, sort: str, offset: int, limit: int) -> tuple[int, list[Entry]]:
        """Return how many slides pass the filter, and `limit` of them starting at `offset`."""
        mask = self._mask(selection)
        chosen = [at for at in self._order(sort) if mask[at]] if sort != "id" else np.flatnonzero(mask).tolist()
        return len(chosen), [self.entries[at] for at in chosen[offset : offset + limit]]

    def counts(self, selection: Selection) -> dict[str, list[tuple[str, int]]]:
        """Return the values of each facet and how many slides have them, most frequent first.

        A facet's own picks do not narrow its counts, so a second value can be picked.
        """
        found: dict[str, list[tuple[str, int]]] = {}
        for name in self.facets:
            column = self._columns[name]
            others = Selection({key: value for key, value in selection.picks.items() if key != name}, selection.text)
            tally = np.bincount(column.codes[self._mask(others)], minlength=len(column.values))
            picked = selection.picks.get(name, frozenset())
            shown = [(v, int(n)) for v, n in zip(column.values, tally) if n or v in picked]
            found[name] = sorted(shown, key=lambda pair: (-pair[1], pair[0]))
        return found

    def _groups(self, column: _Column) -> bool:
        """Return whether a free field groups slides: not all into one group, nor nearly each into its own."""
        most = min(MAX_FACET_VALUES, max(FEW_VALUES, len(self.entries) // 2))
        return 2 <= len(column.values) <= most

    def _mask(self, selection: Selection) -> Mask:
        mask = np.ones(len(self.entries), dtype=bool)
        for name, picked in selection.picks.items():
            column = self._columns.get(name)
            if column is None:
                return np.zeros_like(mask)
            wanted = np.array([value in picked for value in column.values], dtype=bool)
            mask &= wanted[column.codes]
        if words := selection.text.casefold().split():
            mask &= np.fromiter((all(word in hay for word in words) for hay in self._haystack), bool, len(mask))
        return mask

    def _order(self, sort: str) -> Sequence[int]:
        if sort not in self._orders:
            read = _named(sort)
            values = [read(entry.record) for entry in self.entries]
            self._orders[sort] = sorted(range(len(values)), key=lambda at: (values[at] == "", values[at]))
        return self._orders[sort]

    def _column(self, read: Callable[[SlideRecord], str]) -> _Column:
        texts = [read(entry.record) for entry in self.entries]
        values = sorted(set(texts))
        numbers = {value: number for number, value in enumerate(values)}
        return _Column(values, np.array([numbers[text] for text in texts], dtype=np.int32))


def _version(row: SlideRow) -> str:
    return hashlib.blake2b(f"{row.fingerprint} {row.mtime_ns}".encode(), digest_size=9).hexdigest()


def _named(name: str) -> Callable[[SlideRecord], str]:
    return lambda record: str(getattr(record, name))


def _free(name: str) -> Callable[[SlideRecord], str]:
    return lambda record: record.columns.get(name, "")


def _words(record: SlideRecord) -> str:
    named = (record.id, record.patient, record.site, record.label, record.center)
    return "\n".join((*named, *record.columns.values())).casefold()
