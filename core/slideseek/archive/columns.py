"""Slide records by column: masks over 100,000 slides without loading 100,000 records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slideseek.archive.slide_table import SlideTable
from slideseek.types import Int32, Mask, SlideRecord


@dataclass(frozen=True, slots=True)
class Column:
    """One field of n slides. number_of: maps each value to its number. numbers: int32 (n,), one per slide."""

    number_of: Mapping[Any, int]
    numbers: Int32

    @classmethod
    def of(cls, held: Sequence[Any]) -> Column:
        """Number the distinct values of the slides."""
        number_of = {value: number for number, value in enumerate(dict.fromkeys(held))}
        return cls(number_of, np.fromiter(map(number_of.__getitem__, held), np.int32, count=len(held)))

    def equal(self, values: Iterable[Any]) -> Mask:
        """Return which slides have one of a few values: bool (n,)."""
        found: Mask = np.zeros(len(self.numbers), np.bool_)
        for value in values:
            if (number := self.number_of.get(value)) is not None:
                found |= self.numbers == number
        return found

    def where(self, passes: Callable[[Any], bool]) -> Mask:
        """Return which slides have a value that passes, testing each distinct value once: bool (n,)."""
        chosen: Mask = np.fromiter(map(passes, self.number_of), np.bool_, count=len(self.number_of))
        return chosen[self.numbers]


class SlideColumns:
    """Fields of slides in the order of `ids`; each is read from the catalogue on first use."""

    def __init__(self, slides: SlideTable, ids: Sequence[str]) -> None:
        self.ids = ids
        self._slides = slides
        self._columns: dict[tuple[str, bool], Column] = {}

    def column(self, name: str, free: bool = False) -> Column:
        """Return a field of the record, or with `free` one of the manifest's other columns (None where missing)."""
        if (name, free) not in self._columns:
            if free:
                nothing: Mapping[str, str] = {}
                held: list[Any] = [self._free.get(slide_id, nothing).get(name) for slide_id in self.ids]
            elif name == "id":
                held = list(self.ids)
            else:
                held = list(map(self._slides.field(name).get, self.ids))
            self._columns[name, free] = Column.of(held)
        return self._columns[name, free]

    @cached_property
    def free_names(self) -> tuple[str, ...]:
        """Names of the free fields of all slides of the archive, sorted."""
        return tuple(sorted({name for fields in self._free.values() for name in fields}))

    def those(self, slide_ids: Iterable[str]) -> Mask:
        """Return which slides have one of a few ids: bool (n,)."""
        found: Mask = np.zeros(len(self.ids), np.bool_)
        for slide_id in slide_ids:
            with suppress(ValueError):
                found[self.ids.index(slide_id)] = True
        return found

    def among(self, name: str, values: Iterable[str]) -> Mask:
        """Return which slides have one of a few values in a field of the record: bool (n,)."""
        return self.column(name).equal(values)

    def passing(self, name: str, free: bool, condition: Callable[[SlideRecord], bool]) -> Mask:
        """Return which slides pass a condition on a single field of the record: bool (n,)."""

        def passes(value: Any) -> bool:
            if free:
                return condition(SlideRecord("", "", fields={} if value is None else {name: value}))
            return condition(SlideRecord(**{"id": "", "path": "", name: value}))

        return self.column(name, free).where(passes)

    @cached_property
    def _free(self) -> dict[str, Mapping[str, str]]:
        """The free fields of every slide of the archive, by id."""
        known = self._slides.field("fields")
        parsed = json.loads(f"[{','.join(known.values())}]")  # four times as fast as parsing each separately
        return dict(zip(known, parsed, strict=True))
