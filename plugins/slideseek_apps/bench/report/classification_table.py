"""The table of a classification: one row per engine, with precision, recall and F1 of each class, and accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slideseek.types import Float64
from slideseek_apps.bench import class_sums
from slideseek_apps.bench.bootstrap import Resampled
from slideseek_apps.bench.class_sums import Statistic, macro
from slideseek_apps.bench.measure_sums import AnswerSums, sums_of_predictions
from slideseek_apps.bench.report.sections import heading, section_key
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.report.table import Column, Number, Row, Table, mark_best_in_columns
from slideseek_apps.bench.results import Cell

_PARTS: tuple[tuple[str, Statistic], ...] = (
    ("F1", class_sums.f1),
    ("precision", class_sums.precision),
    ("recall", class_sums.recall),
)


def classification_tables(cells: Sequence[Cell], settings: ReportSettings) -> list[tuple[str, Table]]:
    """Return (heading, table) for each dataset and protocol with classification cells."""
    groups: dict[object, list[Cell]] = {}
    for cell in cells:
        if cell.kind == "classification":
            groups.setdefault(section_key(cell), []).append(cell)
    return [(heading(group[0]), _table(group, settings)) for group in groups.values()]


def _table(cells: Sequence[Cell], settings: ReportSettings) -> Table:
    read = {cell.key: cell.predictions() for cell in cells}
    alone = [sums_of_predictions(predictions) for predictions in read.values()]
    patients = sorted({name for answers in alone for name in answers.patients})
    classes = sorted({name for answers in alone for name in answers.classes})
    by_name: dict[str, list[Float64]] = {}
    slides: list[AnswerSums] = []
    for cell in cells:
        answers = sums_of_predictions(read[cell.key], patients, classes)
        slides.append(answers)
        by_name.setdefault(cell.name, []).append(answers.counts([p.predicted for p in read[cell.key]]))
    number_of = np.mean([answers.slides for answers in slides], axis=0)
    columns = [
        Column(part, f"{label} (n = {number:g})", "higher")
        for (_, label), number in zip(classes, number_of)
        for part, _ in _PARTS
    ]
    columns += [Column("macro F1", "all", "higher"), Column("accuracy", "all", "higher")]
    rows = [Row((name,), _numbers(np.stack(counts), settings)) for name, counts in by_name.items()]
    several = any(len(counts) > 1 for counts in by_name.values())
    caption = (
        "Percent, by a classifier on the frozen embedding of a slide. "
        + ("Mean ± standard deviation over seeds. " if several else "")
        + "Brackets: 95 % bootstrap interval over patients."
    )
    return Table(
        "classification", "Classification", caption, ("engine",), tuple(columns), mark_best_in_columns(columns, rows)
    )


def _numbers(counts: Float64, settings: ReportSettings) -> tuple[Number, ...]:
    """Return the entries of one row. counts: float64 (seeds, patients, classes, 3)."""
    resampled = Resampled(counts, settings.resamples)

    def entry(statistic: Statistic) -> Number:
        found, each = resampled.estimate(statistic), statistic(resampled.whole)
        spread = 100 * float(np.nanstd(each, ddof=1)) if len(each) > 1 else None
        return Number(100 * float(found.value), 100 * float(found.low), 100 * float(found.high), spread)

    by_class = [
        entry(lambda parts, part=part, i=i: part(parts)[..., i])  # type: ignore[misc]
        for i in range(counts.shape[2])
        for _, part in _PARTS
    ]
    return (*by_class, entry(macro(class_sums.f1)), entry(class_sums.accuracy))
