"""Figures of a report: engines with intervals, accuracy against size, and curves over swept options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slideseek_apps.bench.report.chart import Axis, Level, Series, interval_chart, line_chart
from slideseek_apps.bench.report.retrieval_tables import SectionTables
from slideseek_apps.bench.report.sections import CODE_SIZE, SEARCH_TIME, Cost, VariantResults
from slideseek_apps.bench.report.swept_options import SweptVariant, as_number, sweep_members
from slideseek_apps.bench.report.table import Number

WHISKERS = "Whiskers: 95 % bootstrap interval over patients."
BASELINE = "yottixel"
"""The engine drawn as a horizontal line beside the curves of a swept option, as in the paper's Figure 3."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with title and caption. svg: text of one svg element that looks the same in every program."""

    key: str
    title: str
    caption: str
    svg: str


def engines_figure(tables: SectionTables, variants: Sequence[VariantResults]) -> Figure:
    """Return macro F1 of each variant with its interval, best first."""
    numbers = [(variant.name, tables.macro_f1(variant)) for variant in variants]
    known = sorted(((name, n.value, n) for name, n in numbers if n.value is not None), key=lambda row: -row[1])
    rows = [(name, value, n.low, n.high, value == known[0][1]) for name, value, n in known]
    axis = Axis(f"macro F1 (%), {tables.vote}", share=True)
    svg = interval_chart(rows, axis, f"Macro F1 by engine, {tables.section.name}")
    return Figure("engines", "Engines", f"Macro F1, {tables.vote}. Lines: 95 % bootstrap interval over patients.", svg)


def size_figure(tables: SectionTables) -> Figure | None:
    """Return macro F1 against bytes per slide; None with fewer than three variants of known size."""
    points = [
        Series(variant.name, [size.value], [number.value], [number.low], [number.high])
        for variant in tables.section.variants
        for size, number in [(variant.cost(CODE_SIZE.of), tables.macro_f1(variant))]
        if size.value and number.value is not None
    ]
    if len(points) < 3:
        return None
    x, y = Axis("bytes per slide", log=True), Axis("macro F1 (%)", share=True)
    svg = line_chart(points, x, y, "Macro F1 by bytes per slide", join=False)
    caption = f"Macro F1, {tables.vote}, by bytes per slide in the index (log scale). {WHISKERS}"
    return Figure("size", "Accuracy and size", caption, svg)


def sweep_figures(tables: SectionTables, family: str) -> list[Figure]:
    """Return the curves of one swept option: macro F1 with intervals and, for bits, the search time."""
    members = [m for m in sweep_members(tables.section, family) if as_number(family, m.value) is not None]
    if len({m.value for m in members}) < 2:
        return []
    log = all((as_number(family, m.value) or 0) > 0 for m in members)
    x = Axis(family, log, sorted({as_number(family, m.value) or 0.0 for m in members}))
    f1 = [(m, tables.macro_f1(m.variant)) for m in members]
    level = [(v.name, tables.macro_f1(v).value) for v in tables.section.plain if BASELINE in v.first.engine.lower()]
    levels = [Level(name, value) for name, value in level if value is not None]
    svg = line_chart(_series(family, f1), x, Axis("macro F1 (%)", share=True), f"Macro F1 by {family}", levels)
    caption = f"Macro F1, {tables.vote}, by {family}. {WHISKERS}"
    figures = [Figure(f"sweep-{family}", f"Macro F1 by {family}", caption, svg)]
    if family == "bits":
        figures += _time_figure(tables, members, x)
    return figures


def _time_figure(tables: SectionTables, members: Sequence[SweptVariant], x: Axis) -> list[Figure]:
    cost: Cost = SEARCH_TIME
    timed = [(m, m.variant.cost(cost.of)) for m in members]
    if any(number.value is None for _, number in timed):
        return []
    plain = [(v.name, v.cost(cost.of).value) for v in tables.section.plain if BASELINE in v.first.engine.lower()]
    levels = [Level(name, value) for name, value in plain if value is not None]
    y = Axis("median search time (ms)", from_zero=True)
    svg = line_chart(_series("bits", timed), x, y, "Search time by bits", levels)
    caption = "Median search time per query by the bits kept, on the machine that ran the benchmark."
    return [Figure("time-bits", "Retrieval time by bits", caption, svg)]


def _series(family: str, numbers: Sequence[tuple[SweptVariant, Number]]) -> list[Series]:
    """Return one series per column name, points in the order given, unknown numbers left out."""
    names = dict.fromkeys(member.column for member, _ in numbers)
    found = []
    for name in names:
        rows = [
            (as_number(family, member.value) or 0.0, number)
            for member, number in numbers
            if member.column == name and number.value is not None
        ]
        if rows:
            found.append(
                Series(
                    name,
                    [x for x, _ in rows],
                    [n.value or 0.0 for _, n in rows],
                    [n.low for _, n in rows],
                    [n.high for _, n in rows],
                )
            )
    return found
