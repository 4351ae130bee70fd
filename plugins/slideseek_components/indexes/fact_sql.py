"""Filters over stores without JSON: every known field of a record is one text in a list, numbers are columns."""

from __future__ import annotations

from slideseek.types import NUMERIC_SIGNS, Filter, SlideRecord

from .shards import number_name, texts

PRESENT = "?"


def facts_of(record: SlideRecord) -> list[str]:
    """Return the fields that are not empty, each as `name=value`, and that they are known."""
    named = [(_key(name, False), text) for name, text in texts(record).items()]
    found = [*named, *((_key(name, True), text) for name, text in record.columns.items())]
    return [part for name, text in found if text for part in (f"{name}={text}", f"{PRESENT}{name}")]


def fact_condition(one: Filter, numeric: frozenset[str]) -> str:
    """Return a filter as the SQL of Lance. numeric: names of the columns of numbers that exist."""
    if one.sign in NUMERIC_SIGNS:
        column = number_name(one.field, one.free)
        return f"coalesce({column} {one.sign} {_number(one.values[0])}, false)" if column in numeric else "false"
    if one.field == "id" and not one.free:
        equal = f"id IN ({', '.join(map(_quoted, one.values))})"
    else:
        key = _key(one.field, one.free)
        wanted = [_quoted(f"{key}={value}") for value in one.values if value]
        parts = [f"array_has_any(facts, [{', '.join(wanted)}])"] if wanted else []
        if "" in one.values:
            parts.append(f"NOT array_has(facts, {_quoted(PRESENT + key)})")
        equal = f"({' OR '.join(parts)})"
    return f"NOT {equal}" if one.sign in ("!=", "not in") else equal


def _key(name: str, free: bool) -> str:
    return f"{'free' if free else 'named'}:{name}"


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _number(text: str) -> str:
    return f"arrow_cast({float(text)!r}, 'Float64')"
