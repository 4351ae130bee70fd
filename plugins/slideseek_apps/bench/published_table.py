"""Check a published table: find numbers that contradict each other, and compute the means it does not print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slideseek.errors import SlideseekError
from slideseek_apps.bench.ranked_lists import read_rows
from slideseek_apps.bench.report.class_table import ClassRow, means_of
from slideseek_apps.bench.report.table import Number

SITE_NAMES = ("site", "primary site")
LABEL_NAMES = ("subtype", "class", "label", "method", "name")
COUNT_NAME = "n"
PARTS = ("precision", "recall", "f1")


@dataclass(frozen=True, slots=True)
class Finding:
    """One contradiction in a table. row: its name, "" for the table as a whole."""

    row: str
    column: str
    message: str


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table as printed: numbers are kept as text, since their decimals show how they were rounded.

    sites, labels: one per row, "" where the table has none. slides: the column `n`, None without one.
    """

    name: str
    columns: tuple[str, ...]
    sites: tuple[str, ...]
    labels: tuple[str, ...]
    slides: tuple[int, ...] | None
    cells: tuple[tuple[str, ...], ...]

    def means(self) -> dict[str, tuple[Number, ...]]:
        """Return the macro mean of each column and, where the table has a column `n`, the slide-weighted mean."""
        found = means_of(self.rows())
        return {"macro mean": found.macro} | ({"slide-weighted mean": found.weighted} if self.slides else {})

    def rows(self) -> list[ClassRow]:
        """Return the rows as numbers; without a column `n` each counts as one slide."""
        return [
            ClassRow(site, label, self.slides[i] if self.slides else 1, tuple(_number(text) for text in cells))
            for i, (site, label, cells) in enumerate(zip(self.sites, self.labels, self.cells))
        ]


def read_published(path: Path) -> PublishedTable:
    """Read a published table from a CSV: `site`, `subtype` (or `class`, `method`), `n`, and columns of numbers."""
    rows = list(read_rows(path, (), lower_case=False))
    if not rows:
        raise SlideseekError(f"{path}: no rows under the heading", "write one row per class or method")
    names = list(rows[0][1])
    site = next((name for name in names if name.lower() in SITE_NAMES), None)
    label = next((name for name in names if name.lower() in LABEL_NAMES), None)
    columns = tuple(name for name in names if name not in (site, label, COUNT_NAME))
    for line, row in rows:
        for name in (*columns, *([COUNT_NAME] if COUNT_NAME in row else [])):
            if not _is_number(row[name]) or (name == COUNT_NAME and not row[name].isdecimal()):
                what = "whole number" if name == COUNT_NAME else "number"
                raise SlideseekError(f"{path}, line {line}: {name} is {row[name]!r}, not a {what}", "correct the cell")
    return PublishedTable(
        path.name,
        columns,
        tuple(row[site] if site else "" for _, row in rows),
        tuple(row[label] if label else f"row {i}" for i, (_, row) in enumerate(rows, 1)),
        tuple(int(row[COUNT_NAME]) for _, row in rows) if COUNT_NAME in names else None,
        tuple(tuple(row[name] for name in columns) for _, row in rows),
    )


def check_published(table: PublishedTable, total: int | None = None) -> list[Finding]:
    """Return the contradictions: F1 against precision and recall, and the sum of `n` against the stated total."""
    findings = list(_check_f1(table))
    if total is not None:
        if table.slides is None:
            raise SlideseekError(f"{table.name} has no column {COUNT_NAME!r} to sum", "leave --total out")
        found = sum(table.slides)
        if found != total:
            findings.append(Finding("", COUNT_NAME, f"the rows sum to {found:,} slides, {total:,} are stated"))
    return findings


def _check_f1(table: PublishedTable) -> Iterator[Finding]:
    for prefix in _triples(table.columns):
        places = [table.columns.index(f"{prefix}{part}") for part in PARTS]
        for label, cells in zip(table.labels, table.cells):
            precision, recall, f1 = (cells[i] for i in places)
            low, high = _f1_range(precision, recall)
            unit = _unit(f1)
            if float(f1) < low - unit or float(f1) > high + unit:
                exact = _f1(float(precision), float(recall))
                yield Finding(
                    label,
                    f"{prefix}f1",
                    f"F1 is {f1}, but precision {precision} and recall {recall} give {exact:.{_decimals(f1)}f}",
                )


def _triples(columns: Sequence[str]) -> list[str]:
    """Return the prefixes that have columns for precision, recall and F1."""
    prefixes = [name.removesuffix("f1") for name in columns if name == "f1" or name.endswith(" f1")]
    return [prefix for prefix in prefixes if all(f"{prefix}{part}" in columns for part in PARTS)]


def _f1_range(precision: str, recall: str) -> tuple[float, float]:
    """Return the smallest and the largest F1 that two rounded numbers allow; F1 grows with both.

    A printed number stands for any within one unit of its last digit: tables are truncated as often as rounded.
    """
    p, r = float(precision), float(recall)
    dp, dr = _unit(precision), _unit(recall)
    return _f1(max(p - dp, 0), max(r - dr, 0)), _f1(p + dp, r + dr)


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _unit(text: str) -> float:
    return float(10 ** -_decimals(text))


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "e" not in text.lower() and "n" not in text.lower()  # a printed number has no exponent, nan or inf


def _number(text: str) -> Number:
    return Number(float(text), digits=max(2, _decimals(text)))
