"""The archive's slides in memory, up to 100,000: lookup by key, filters, facet counts, ranges, completion and pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slideseek.archive.slide_table import SlideRow
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError
from slideseek.slides.file_formats import has_slide_name
from slideseek.types import Float64, Int32, Mask, SlideRecord, is_url
from slideseek_apps.viewer.opaque_slide_keys import slide_key

NAMED_FACETS = ("site", "label", "center")
NAMED = ("id", "patient", *NAMED_FACETS)
MAX_FACET_VALUES = 60
"""A free field with more values than this (an age, a date, a number) is not useful as a facet."""

FEW_VALUES = 8
"""In a small archive, a free field with up to this many values is a facet even if most values are unique."""

NUMERIC_SHARE = 0.9
"""A field is numeric if this share of its known values are numbers."""

MAX_IDS = 2000
"""Most slides that a search is narrowed to by their ids, where no condition on fields says the same."""

COMPLETIONS = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """A slide in the list. row: it in the catalogue. version: changes whenever its pixels may have changed.

    file: whether it is a file in a folder that the server may read, and not a slide of the archive.
    """

    key: str
    record: SlideRecord
    row: SlideRow
    version: str
    file: bool = False

    @property
    def has_pixels(self) -> bool:
        """Whether it has a slide file; slides of imported features may have none."""
        path = self.record.path
        return is_url(path) or has_slide_name(path.replace("\\", "/").rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter.

    picks: by facet, the accepted values. text: words that must all occur in a slide's fields. ranges: by numeric field,
    the lowest and highest value, None if open. ids: only these slides, None for all.
    """

    picks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    text: str = ""
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    ids: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Column:
    values: Sequence[str]
    codes: Int32


class SlideDirectory:
    """All slides in id order. Rebuilt when the catalogue changes; immutable, so any thread may read it."""

    def __init__(self, rows: Iterable[SlideRow]) -> None:
        self.entries = [Entry(slide_key(row.id), row.record, row, version_of(row)) for row in rows]
        self._by_key = {entry.key: at for at, entry in enumerate(self.entries)}
        self._by_id = {entry.record.id: at for at, entry in enumerate(self.entries)}
        free = sorted({name for entry in self.entries for name in entry.record.columns})
        self.fields: tuple[str, ...] = tuple(free)
        stated = {"stain"}.union(*(entry.record.fields for entry in self.entries))
        self._columns = {name: self._column(_named(name)) for name in NAMED_FACETS}
        self._numbers: dict[str, Float64] = {}
        for name in free:
            column = self._column(_free(name))
            if (numbers := _numbers(column)) is not None:
                self._numbers[name] = numbers
            # What was measured is a number, apart from the stain.
            if name in stated and name not in self._columns and self._groups(column):
                self._columns[name] = column
        self._haystack = [_words(entry.record) for entry in self.entries]
        self._orders: dict[str, Sequence[int]] = {"id": range(len(self.entries))}
        self.with_pixels = sum(entry.has_pixels for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def facets(self) -> tuple[str, ...]:
        """The fields to filter by: those with at least one known value."""
        return tuple(name for name, column in self._columns.items() if any(column.values))

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The numeric fields to filter by, with their least and greatest value; those with few values are facets."""
        found = {}
        for name, numbers in self._numbers.items():
            low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
            if low < high and name not in self._columns:
                found[name] = low, high
        return found

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

    def page(
        self, selection: Selection, sort: str = "id", offset: int = 0, limit: int | None = None, falling: bool = False
    ) -> tuple[int, list[Entry]]:
        """Return how many slides pass the filter, and `limit` of them starting at `offset`.

        sort: the field to order by; falling: the greatest first. Slides without a value come last either way.
        """
        mask = self._mask(selection)
        chosen = [at for at in self._order(sort, falling) if mask[at]]
        return len(chosen), [self.entries[at] for at in chosen[offset:][:limit]]

    def counts(self, selection: Selection) -> dict[str, list[tuple[str, int]]]:
        """Return the values of each facet and how many slides have them, most frequent first.

        A facet's own picks do not narrow its counts, so a second value can be picked.
        """
        found: dict[str, list[tuple[str, int]]] = {}
        for name in self.facets:
            column = self._columns[name]
            picks = {key: value for key, value in selection.picks.items() if key != name}
            mask = self._mask(replace(selection, picks=picks))
            tally = np.bincount(column.codes[mask], minlength=len(column.values))
            picked = selection.picks.get(name, frozenset())
            shown = [(v, int(n)) for v, n in zip(column.values, tally) if n or v in picked]
            found[name] = sorted(shown, key=lambda pair: (-pair[1], pair[0]))
        return found

    def complete(self, text: str) -> list[tuple[str, str, int]]:
        """Return values of facets that contain a text, or whose field does: (field, value, slides), frequent first."""
        wanted = text.casefold().strip()
        name, _, part = wanted.partition("=")
        found = []
        for facet in self.facets:
            column = self._columns[facet]
            tally = np.bincount(column.codes, minlength=len(column.values))
            for value, slides in zip(column.values, tally.tolist()):
                there = wanted in value.casefold() or (name == facet.casefold() and part in value.casefold())
                if value and (there or (not part and wanted in facet.casefold())):
                    found.append((facet, value, int(slides)))
        return sorted(found, key=lambda one: (-one[2], one[0], one[1]))[:COMPLETIONS]

    def conditions(self, selection: Selection) -> list[str]:
        """Return a filter as the conditions of a search. Text becomes a condition on one field, or a list of ids."""
        found = [_in(name, sorted(picked)) for name, picked in selection.picks.items()]
        for name, (low, high) in selection.ranges.items():
            found += [f"{name}{sign}{bound!r}" for sign, bound in ((">=", low), ("<=", high)) if bound is not None]
        if words := selection.text.split():
            found += self._of_words(words)
        if selection.ids is not None:
            found.append(self._of_ids(self._mask(Selection(ids=selection.ids))))
        return found

    def _of_words(self, words: Sequence[str]) -> list[str]:
        mask = self._mask(Selection(text=" ".join(words)))
        for name in self.facets:
            column = self._columns[name]
            values = [value for value in column.values if all(word.casefold() in value.casefold() for word in words)]
            wanted = np.array([value in values for value in column.values], dtype=bool)
            if values and np.array_equal(wanted[column.codes], mask):
                return [_in(name, values)]
        return [self._of_ids(mask)]

    def _of_ids(self, mask: Mask) -> str:
        ids = [self.entries[at].record.id for at in np.flatnonzero(mask).tolist()]
        if len(ids) > MAX_IDS:
            raise UsageError(
                f"{len(ids):,} slides are chosen by text or by name, and a search can be narrowed to {MAX_IDS:,}",
                "add a word, or pick values of a field instead",
            )
        return _in("id", ids)

    def _groups(self, column: _Column) -> bool:
        """Return whether a free field groups slides: not all into one group, nor nearly each into its own."""
        most = min(MAX_FACET_VALUES, max(FEW_VALUES, len(self.entries) // 2))
        few = len(column.values) <= FEW_VALUES + 1  # one of them may be "unknown"
        return 2 <= len(column.values) <= most and (few or _numbers(column) is None)

    def _mask(self, selection: Selection) -> Mask:
        mask = np.ones(len(self.entries), dtype=bool)
        for name, picked in selection.picks.items():
            column = self._columns.get(name)
            if column is None:
                return np.zeros_like(mask)
            wanted = np.array([value in picked for value in column.values], dtype=bool)
            mask &= wanted[column.codes]
        for name, (low, high) in selection.ranges.items():
            numbers = self._numbers.get(name)
            if numbers is None:
                return np.zeros_like(mask)
            with np.errstate(invalid="ignore"):
                mask &= (numbers >= (-np.inf if low is None else low)) & (numbers <= (np.inf if high is None else high))
        if selection.ids is not None:
            ids = selection.ids
            mask &= np.fromiter((entry.record.id in ids for entry in self.entries), bool, len(mask))
        if words := selection.text.casefold().split():
            mask &= np.fromiter((all(word in hay for word in words) for hay in self._haystack), bool, len(mask))
        return mask

    def _order(self, sort: str, falling: bool) -> Sequence[int]:
        name = f"{sort} falling" if falling else sort
        if name not in self._orders:
            if sort not in NAMED and sort not in self.fields:
                known = (*NAMED, *self.fields)
                raise UsageError(
                    f"no field {sort!r} to sort by", did_you_mean(sort, known, f"fields: {', '.join(known)}")
                )
            read = _named(sort) if sort in NAMED else _free(sort)
            values: list[str] | list[float]
            if (numbers := self._numbers.get(sort)) is not None:
                values = numbers.tolist()
                known_at = np.flatnonzero(~np.isnan(numbers)).tolist()
            else:
                values = [read(entry.record) for entry in self.entries]
                known_at = [at for at, value in enumerate(values) if value]
            known_set = set(known_at)
            self._orders[name] = [
                *sorted(known_at, key=values.__getitem__, reverse=falling),
                *(at for at in range(len(values)) if at not in known_set),
            ]
        return self._orders[name]

    def _column(self, read: Callable[[SlideRecord], str]) -> _Column:
        texts = [read(entry.record) for entry in self.entries]
        values = sorted(set(texts))
        numbers = {value: number for number, value in enumerate(values)}
        return _Column(values, np.array([numbers[text] for text in texts], dtype=np.int32))


def version_of(row: SlideRow) -> str:
    """Return the version of a slide's pixels."""
    return hashlib.blake2b(f"{row.fingerprint} {row.mtime_ns}".encode(), digest_size=9).hexdigest()


def _in(name: str, values: Sequence[str]) -> str:
    """Return the condition that a field has one of some values; commas are quoted, both kinds of quotes cannot be."""
    if len(values) == 1 and values[0][:1] not in ("'", '"'):
        return f"{name}={values[0]}"
    if any('"' in value and "'" in value for value in values):
        raise UsageError(
            f"a value of {name!r} has both kinds of quotes, so a search cannot be narrowed to it", "pick other values"
        )
    return f"{name} in " + ",".join(f"'{value}'" if '"' in value else f'"{value}"' for value in values)


def _numbers(column: _Column) -> Float64 | None:
    """Return the values of the slides as numbers, NaN for the others; None if the field is not numeric."""
    parsed = np.full(len(column.values), np.nan)
    for at, value in enumerate(column.values):
        try:
            parsed[at] = float(value)
        except ValueError:
            continue
    parsed[~np.isfinite(parsed)] = np.nan
    known = sum(bool(value) for value in column.values)
    if known < 2 or np.count_nonzero(~np.isnan(parsed)) < NUMERIC_SHARE * known:
        return None
    return np.asarray(parsed[column.codes], np.float64)


def _named(name: str) -> Callable[[SlideRecord], str]:
    return lambda record: str(getattr(record, name))


def _free(name: str) -> Callable[[SlideRecord], str]:
    return lambda record: record.columns.get(name, "")


def _words(record: SlideRecord) -> str:
    named = (record.id, record.patient, record.site, record.label, record.center)
    return "\n".join((*named, *record.columns.values())).casefold()
