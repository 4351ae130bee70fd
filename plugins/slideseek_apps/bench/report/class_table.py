"""The table of a paper: a row a site and subtype, a column an engine, the macro and the slide-weighted mean below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slideseek_apps.bench.report.table import Column, Number, Row, Table, mark_best_in_rows


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One class with its numbers, one an engine. slides: how many; the mean over seeds where they differ."""

    site: str
    label: str
    slides: float
    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class Means:
    """The numbers below the classes, one an engine."""

    macro: tuple[Number, ...]
    weighted: tuple[Number, ...]


def class_table(
    key: str,
    title: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[ClassRow],
    means: Means | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Make the table; the best of each row is highlighted, within its group where columns are grouped.

    means: given where they carry intervals; else the means of the rows as they are.
    """
    shown = means or means_of(rows)
    by_site = any(row.site for row in rows)
    total = sum(row.slides for row in rows)

    def heads(site: str, label: str, slides: float) -> tuple[str, ...]:
        return (*((site,) if by_site else ()), label, f"{slides:g}" if slides == int(slides) else f"{slides:.1f}")

    body = [Row(heads(row.site, row.label, row.slides), row.numbers) for row in rows]
    below = [
        Row(heads("macro mean", "", total) if by_site else heads("", "macro mean", total), shown.macro, summary=True),
        Row(
            heads("slide-weighted mean", "", total) if by_site else heads("", "slide-weighted mean", total),
            shown.weighted,
            summary=True,
        ),
    ]
    names = ("site", "subtype", "n") if by_site else ("class", "n")
    marked = mark_best_in_rows([*body, *below], [column.group for column in columns])
    return Table(key, title, caption, names, tuple(columns), marked, tuple(notes))


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
