"""The table of the paper: one row per site and subtype, one column per engine, and the means below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slideseek_apps.bench.report.table import Column, Number, Row, Table, mark_best_in_rows


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One class with one number per engine. slides: their number; the mean over seeds where it differs."""

    site: str
    label: str
    slides: float
    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class Means:
    """The means below the classes, one per engine."""

    macro: tuple[Number, ...]
    weighted: tuple[Number, ...]


def class_table(
    key: str,
    title: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[ClassRow],
    means: Means,
) -> Table:
    """Make the table; the best of each row is highlighted, within its group where columns are grouped."""
    by_site = any(row.site for row in rows)
    total = sum(row.slides for row in rows)

    def heads(site: str, label: str, slides: float) -> tuple[str, ...]:
        return (*((site,) if by_site else ()), label, f"{slides:g}" if slides == int(slides) else f"{slides:.1f}")

    body = [Row(heads(row.site, row.label, row.slides), row.numbers) for row in rows]
    below = [
        Row(heads("macro mean", "", total) if by_site else heads("", "macro mean", total), means.macro, summary=True),
        Row(
            heads("slide-weighted mean", "", total) if by_site else heads("", "slide-weighted mean", total),
            means.weighted,
            summary=True,
        ),
    ]
    names = ("site", "subtype", "n") if by_site else ("class", "n")
    marked = mark_best_in_rows([*body, *below], [column.group for column in columns])
    return Table(key, title, caption, names, tuple(columns), marked)


def means_of(rows: Sequence[ClassRow]) -> Means:
    """Return the plain and the slide-weighted mean over the classes of each column."""
    macro, weighted = [], []
    for numbers in zip(*(row.numbers for row in rows)):
        known = [(n.value, row.slides, n.digits) for n, row in zip(numbers, rows) if n.value is not None]
        digits = known[0][2] if known else 1
        slides = sum(weight for _, weight, _ in known)
        macro.append(Number(sum(v for v, _, _ in known) / len(known) if known else None, digits=digits))
        weighted.append(Number(sum(v * w for v, w, _ in known) / slides if slides else None, digits=digits))
    return Means(tuple(macro), tuple(weighted))
