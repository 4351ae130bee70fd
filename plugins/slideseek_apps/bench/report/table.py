"""Tables as values: numbers with intervals under named columns, independent of the format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Better: TypeAlias = Literal["higher", "lower", ""]


@dataclass(frozen=True, slots=True)
class Number:
    """One number as it is shown.

    value: None (or nan) when unknown. low, high: its interval. spread: standard deviation over seeds. digits: decimals
    shown; -1 shows three significant digits, for times and sizes. best: highlighted. signed: shown with a plus sign.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    digits: int = 1
    best: bool = False
    signed: bool = False

    @property
    def text(self) -> str:
        """The number alone; a dash when there is none."""
        return self._show(self.value)

    @property
    def interval(self) -> str:
        """The interval as `[low, high]`; empty when there is none."""
        if self.low is None or self.high is None or math.isnan(self.low):
            return ""
        return f"[{self._show(self.low)}, {self._show(self.high)}]"

    @property
    def deviation(self) -> str:
        """The spread over seeds as `± s`; empty when there is none, as for an engine that does not learn."""
        return (
            "" if not self.spread or math.isnan(self.spread) else f"± {replace(self, signed=False)._show(self.spread)}"
        )

    @property
    def full(self) -> str:
        """The number with spread and interval, in one line."""
        return " ".join(part for part in (self.text, self.deviation, self.interval) if part)

    def _show(self, value: float | None) -> str:
        if value is None or math.isnan(value):
            return "–"
        if self.digits < 0:
            decimals = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
            return f"{value:,.{decimals}f}"
        shown = round(value, self.digits) or 0.0  # no minus sign before a zero
        return f"{shown:{'+' if self.signed and shown else ''},.{self.digits}f}"


Entry: TypeAlias = Number | str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of entries. group: a heading over several columns. better: which values are highlighted, if any."""

    name: str
    group: str = ""
    better: Better = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row. heads: its leading cells, such as site, subtype and n. summary: it is a mean below the others."""

    heads: tuple[str, ...]
    entries: tuple[Entry, ...]
    summary: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table. heads: names of the leading columns; the last of them is aligned right where it holds numbers.

    caption: what the numbers are, with the names of all conventions. notes: remarks below the table. appendix: long and
    for reference; a page folds it, the terminal and LaTeX leave it out.
    """

    key: str
    title: str
    caption: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    appendix: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.heads) != len(self.heads) or len(row.entries) != len(self.columns):
                raise ValueError(f"rows: {len(self.heads)} heads and {len(self.columns)} entries, not {row!r}")

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Headings over columns, each with the number of columns it spans; empty when no column has one."""
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and spans[-1][0] == column.group:
                spans[-1] = (column.group, spans[-1][1] + 1)
            else:
                spans.append((column.group, 1))
        return spans if any(name for name, _ in spans) else []


def mark_best_in_rows(rows: Sequence[Row], groups: Sequence[str] = ()) -> tuple[Row, ...]:
    """Highlight the highest number of each row, or of each group of columns; numbers shown alike share it."""
    marked = []
    for row in rows:
        names = list(groups) or [""] * len(row.entries)
        entries = list(row.entries)
        for name in dict.fromkeys(names):
            places = [i for i, other in enumerate(names) if other == name]
            for i, entry in zip(places, _mark([entries[i] for i in places], "higher")):
                entries[i] = entry
        marked.append(replace(row, entries=tuple(entries)))
    return tuple(marked)


def mark_best_in_columns(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Row, ...]:
    """Highlight the best number of each column where higher or lower is better."""
    done = [_mark([row.entries[i] for row in rows], column.better) for i, column in enumerate(columns)]
    return tuple(replace(row, entries=tuple(entries[at] for entries in done)) for at, row in enumerate(rows))


def _mark(entries: Sequence[Entry], better: Better) -> list[Entry]:
    known = [e.value for e in entries if isinstance(e, Number) and e.value is not None and not math.isnan(e.value)]
    if not better or len(known) < 2:
        return list(entries)
    winner = max(known) if better == "higher" else min(known)
    wins = [isinstance(e, Number) and e.text == replace(e, value=winner).text for e in entries]
    if sum(wins) == len(known):
        return list(entries)  # all are equal
    return [replace(e, best=True) if won and isinstance(e, Number) else e for e, won in zip(entries, wins)]
