"""The long table of a section: every measure under every named convention, one column per variant."""

from __future__ import annotations

from collections.abc import Sequence

from slideseek_apps.bench.report.sections import Section, VariantResults
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.report.table import Column, Number, Row, Table, mark_best_in_rows
from slideseek_apps.bench.scoring import KS, score


def conventions_table(section: Section, settings: ReportSettings) -> Table:
    """Return every measure of the ranked lists in percent, averaged over seeds; a dash where lists lack what it needs.

    k is 1, 3, 5 and the report's own, up to the number of hits that were kept: majority-5 needs 5 hits.
    """
    stored = max(cell.protocol.k for cell in section.cells)
    ks = [k for k in sorted({*KS, settings.k}) if not stored or k <= stored] or [settings.k]
    found = [_means(variant, ks) for variant in section.variants]
    rows = [Row(name, tuple(Number(means[name], digits=2) for means in found)) for name in found[0]]
    better = [row for row in rows if not row.heads[0].startswith("same-centre")]
    judged = dict(zip((row.heads for row in better), mark_best_in_rows(better)))
    return Table(
        "conventions",
        "Every measure under every convention",
        "In percent, the mean over seeds. Numbers compare along a row only; the best of a row is highlighted.",
        ("measure", "convention"),
        tuple(Column(variant.name) for variant in section.variants),
        tuple(judged.get(row.heads, row) for row in rows),
        appendix=True,
    )


def _means(variant: VariantResults, ks: Sequence[int]) -> dict[tuple[str, str], float | None]:
    """Return the mean over seeds of every measure; None where a seed lacks it."""
    scores = [score(lists, ks) for lists in variant.lists]
    means: dict[tuple[str, str], float | None] = {}
    for same in zip(*scores):
        known = [100 * one.value for one in same if one.value is not None]
        means[same[0].measure, same[0].convention] = sum(known) / len(known) if len(known) == len(same) else None
    return means
