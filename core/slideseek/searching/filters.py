"""Filters over the manifest's fields: `site=lung`, `age>=60`, `label in a,b`, `Tumor Stage != "IV, b"`."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator

from slideseek.archive.manifest import ALIASES
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError
from slideseek.types import NUMERIC_SIGNS, Filter

NAMED_FIELDS = ("id", "patient", "site", "label", "center")
"""Text fields every slide has; `mpp`, a number, can also be filtered on."""

_EVERY = (*NAMED_FIELDS, "mpp")
_SIGN = re.compile(r"!=|<=|>=|=|<|>|\snot\s+in\s|\sin\s")
# Only quotes around a whole item count: those in "Barrett's, Crohn's" are apostrophes.
_ITEM = re.compile(r"""\s*("[^"]*"(?=\s*(?:,|$))|'[^']*'(?=\s*(?:,|$))|[^,]+)""")


def parse_filter(text: str, known: Collection[str]) -> Filter:
    """Parse one condition; the error for an unknown field suggests the nearest name.

    known: free fields of the archive's manifest. A free field of exactly that name takes precedence over a standard
    field. A standard field also goes by the headings a manifest may use for it (`diagnosis` is `label`).
    """
    splits = list(_splits(text))
    if not splits:
        raise UsageError(
            f"cannot read the filter {text!r}", "write FIELD=VALUE, !=, <, <=, >, >=, 'FIELD in A,B' or 'not in'"
        )
    # A name may contain a sign itself ("PD-L1 >= 1%", "margin in mm"): the first split that gives a known field counts.
    found = next((split for split in splits if split[0] in known or _named(split[0])), None)
    if found is None:
        name, names = splits[0][0], [*_EVERY, *known]
        raise UsageError(
            f"no field {name!r} in this archive",
            did_you_mean(
                name, [*names, *(alias for role in _EVERY for alias in ALIASES[role])], f"fields: {', '.join(names)}"
            ),
        )
    name, sign, value = found
    values = _items(value) if sign in ("in", "not in") else (_unquoted(value),)
    if sign in NUMERIC_SIGNS and not _is_number(values[0]):
        raise UsageError(f"{text!r}: {value!r} is not a number", "compare with a number, or use = or !=")
    free = name in known
    return Filter(name if free else _named(name), free, sign, values)


def _items(value: str) -> tuple[str, ...]:
    """Split a list at its commas; a quoted item may contain commas."""
    items = (item.strip() for item in _ITEM.findall(value))
    return tuple(_unquoted(item) for item in items if item) or ("",)


def _unquoted(value: str) -> str:
    """Drop the quotes around a whole value. A single leading apostrophe is allowed, a single double quote is not."""
    if value.startswith('"') and value.count('"') % 2:
        raise UsageError(f"the quote in {value!r} is not closed", 'write VALUE or "VALUE"')
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _splits(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (field, sign, value) for every possible position of a sign, from left to right."""
    for match in _SIGN.finditer(text):
        if field := text[: match.start()].strip():
            yield field, " ".join(match.group().split()), text[match.end() :].strip()


def _named(name: str) -> str:
    """Return the standard field a name stands for, or ""."""
    if name in _EVERY:
        return name
    plain = name.lower().replace(" ", "_").replace("-", "_")
    return next((role for role in _EVERY if plain in ALIASES[role]), "")
