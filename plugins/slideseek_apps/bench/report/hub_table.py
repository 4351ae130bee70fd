"""The table of hubs: slides that are found far more often than others, and whether they are those with most patches."""

from __future__ import annotations

from collections.abc import Sequence

from slideseek_apps.bench.hub_counts import hubs
from slideseek_apps.bench.hubness import Hubness
from slideseek_apps.bench.report.sections import Section, VariantResults
from slideseek_apps.bench.report.table import Column, Number, Row, Table

COLUMNS = (
    Column("skew"),
    Column("largest, x fair share"),
    Column("never found (%)"),
    Column("correlation with patches"),
)


def hub_table(section: Section, k: int) -> Table | None:
    """Return one row per variant, means over seeds; None if no result says how often slides could be found."""
    found = {variant.name: _measured(variant, k) for variant in section.variants}
    if not any(found.values()):
        return None
    rows = [Row((name,), _numbers(seeds)) for name, seeds in found.items()]
    caption = (
        f"How often each slide is among the {k} nearest, divided by its fair share: what it would be if candidates "
        "were drawn at random. Skew of that number, its largest value, the share of slides that no query finds, and "
        "Spearman's correlation with the number of patches."
    )
    unknown = [name for name, seeds in found.items() if not seeds]
    notes = (f"not counted in results of an earlier version: {', '.join(unknown)}",) if unknown else ()
    return Table("hubs", "Hubs", caption, ("engine",), COLUMNS, tuple(rows), notes)


def _measured(variant: VariantResults, k: int) -> list[Hubness]:
    seeds = []
    for cell, lists in zip(variant.cells, variant.lists):
        candidates = cell.candidates()
        one = hubs(lists.queries, candidates, k) if candidates else None
        seeds += [one] if one else []
    return seeds


def _numbers(seeds: Sequence[Hubness]) -> tuple[Number, ...]:
    sizes = [one.size for one in seeds if one.size is not None]
    return (
        _mean([one.skew for one in seeds], 2),
        _mean([one.largest for one in seeds], 2),
        _mean([100 * one.never / one.slides for one in seeds], 1),
        _mean(sizes, 2),
    )


def _mean(values: Sequence[float], digits: int) -> Number:
    return Number(sum(values) / len(values) if values else None, digits=digits)
