"""What is known of many slides, a field at a time: for masks over 100,000 slides without 100,000 records."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slideseek.archive.slide_table import SlideTable
from slideseek.types import Int32, Mask, SlideRecord


@dataclass(frozen=True, slots=True)
class Column:
    """One field of n slides. values: the different values there are. numbers: int32 (n,), which of them a slide has."""

    values: Sequence[Any]
    numbers: Int32

    @classmethod
    def of(cls, held: Sequence[Any]) -> Column:
        """Number the values that slides hold."""
        number: dict[Any, int] = {}
        numbers = np.fromiter((number.setdefault(value, len(number)) for value in held), np.int32, count=len(held))
        return cls([*number], numbers)

    def where(self, passes: Callable[[Any], bool]) -> Mask:
        """Say which slides have a value that passes, asking once a value: bool (n,)."""
        chosen: Mask = np.fromiter(map(passes, self.values), np.bool_, count=len(self.values))
        return chosen[self.numbers] if len(chosen) else np.zeros(0, np.bool_)


class SlideColumns:
    """Fields of slides in the order of `ids`; each is read from the catalogue when it is first asked for."""

    def __init__(self, slides: SlideTable, ids: Sequence[str]) -> None:
        self.ids = ids
        self._slides = slides
        self._columns: dict[tuple[str, bool], Column] = {}

    def column(self, name: str, free: bool = False) -> Column:
        """Return a field of the record, or with `free` one of the manifest's other columns (None where it lacks)."""
        if (name, free) not in self._columns:
            if free:
                held: list[Any] = [fields.get(name) for fields in self._fields]
            elif name == "id":
                held = list(self.ids)
            else:
                known = self._slides.field(name)
                held = [known.get(slide_id, "") for slide_id in self.ids]
            self._columns[name, free] = Column.of(held)
        return self._columns[name, free]

    def among(self, name: str, values: Collection[str]) -> Mask:
        """Say which slides have one of some values in a field: bool (n,)."""
        return self.column(name).where(set(values).__contains__)

    def passing(self, name: str, free: bool, condition: Callable[[SlideRecord], bool]) -> Mask:
        """Say which slides pass a condition that looks at nothing but one field of the record: bool (n,)."""

        def passes(value: Any) -> bool:
            if free:
                return condition(SlideRecord("", "", fields={} if value is None else {name: value}))
            return condition(SlideRecord(**{"id": "", "path": "", name: value}))

        return self.column(name, free).where(passes)

    @cached_property
    def _fields(self) -> list[Mapping[str, str]]:
        """The free fields of each slide."""
        known = self._slides.field("fields")
        read: dict[str, Mapping[str, str]] = {"": {}}
        for text in known.values():
            if text not in read:
                read[text] = json.loads(text)
        return [read[known.get(slide_id, "")] for slide_id in self.ids]
