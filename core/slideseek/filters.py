"""Filters over the manifest's fields: `site=lung`, `age>=60`, `label in a,b`, `Tumor Stage!=IV`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from slideseek.archive.manifest import ALIASES
from slideseek.errors import UsageError
from slideseek.plugins import nearest
from slideseek.types import SlideRecord

NAMED_FIELDS = ("id", "patient", "site", "label", "center")
_SIGN = re.compile(r"!=|<=|>=|=|<|>|\sin\s")
_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on one field of a slide's record. free: a column kept as it is, not one of `NAMED_FIELDS`."""

    field: str
    free: bool
    sign: str
    value: str

    def __call__(self, record: SlideRecord) -> bool:
        """Say whether a slide passes. A numeric comparison with something that is no number does not."""
        got = record.fields.get(self.field, "") if self.free else str(getattr(record, self.field))
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

    known: free fields of the archive's manifest. A free field of exactly that name is meant before a named one; a
    named one also goes by the headings a manifest may use for it (`diagnosis` is `label`).
    """
    splits = list(_splits(text))
    if not splits:
        raise UsageError(f"cannot read the filter {text!r}", "write FIELD=VALUE, !=, <, <=, >, >= or 'FIELD in A,B'")
    # A name may hold a sign itself ("PD-L1 >= 1%", "margin in mm"): the first split that yields a known field counts.
    found = next((split for split in splits if split[0] in known or _named(split[0])), None)
    if found is None:
        name, names = splits[0][0], [*NAMED_FIELDS, *known]
        near = nearest(name, [*names, *(alias for role in NAMED_FIELDS for alias in ALIASES[role])])
        raise UsageError(
            f"no field {name!r} in this archive", f"did you mean {near!r}?" if near else f"fields: {', '.join(names)}"
        )
    name, sign, value = found
    if sign in _NUMERIC:
        try:
            float(value)
        except ValueError:
            raise UsageError(f"{text!r}: {value!r} is not a number", "compare with a number, or use = or !=") from None
    free = name in known
    return Filter(name if free else _named(name), free, sign, value)


def _splits(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (field, sign, value) for every place a sign may stand at, from left to right."""
    for match in _SIGN.finditer(text):
        if field := text[: match.start()].strip():
            yield field, match.group().strip(), text[match.end() :].strip()


def _named(name: str) -> str:
    """Return the named field a name stands for, "" when it stands for none."""
    if name in NAMED_FIELDS:
        return name
    plain = name.lower().replace(" ", "_").replace("-", "_")
    return next((role for role in NAMED_FIELDS if plain in ALIASES[role]), "")
