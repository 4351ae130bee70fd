"""Filters over the manifest's fields: `site=lung`, `age>=60`, `label in a,b`, `center!=A2`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from slideseek.errors import UsageError
from slideseek.plugins import nearest
from slideseek.types import SlideRecord

NAMED_FIELDS = ("id", "patient", "site", "label", "center")
_PATTERN = re.compile(r"\s*(?P<field>[^=!<>\s]+)\s*(?P<sign>!=|<=|>=|=|<|>|\sin\s)\s*(?P<value>.*?)\s*")
_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on one field of a slide's record."""

    field: str
    sign: str
    value: str

    def __call__(self, record: SlideRecord) -> bool:
        """Say whether a slide passes. A numeric comparison with something that is no number does not."""
        got = field_value(record, self.field)
        if self.sign == "=":
            return got == self.value
        if self.sign == "!=":
            return got != self.value
        if self.sign == "in":
            return got in [part.strip() for part in self.value.split(",")]
        try:
            return _NUMERIC[self.sign](float(got), float(self.value))
        except ValueError:
            return False


def parse_filter(text: str, known: Collection[str]) -> Filter:
    """Read one condition; an unknown field is an error that names the nearest.

    known: free fields of the archive's manifest besides the named ones.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"cannot read the filter {text!r}", "write FIELD=VALUE, !=, <, <=, >, >= or 'FIELD in A,B'")
    field, sign, value = match["field"], match["sign"].strip(), match["value"]
    names = [*NAMED_FIELDS, *known]
    if field not in names:
        near = nearest(field, names)
        raise UsageError(
            f"no field {field!r} in this archive", f"did you mean {near!r}?" if near else f"fields: {', '.join(names)}"
        )
    if sign in _NUMERIC:
        try:
            float(value)
        except ValueError:
            raise UsageError(f"{text!r}: {value!r} is not a number", "compare with a number, or use = or !=") from None
    return Filter(field, sign, value)


def field_value(record: SlideRecord, name: str) -> str:
    """Return a field of a record, named or free; "" when the slide has none."""
    return str(getattr(record, name)) if name in NAMED_FIELDS else record.fields.get(name, "")
