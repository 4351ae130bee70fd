"""The stability of the order of variants: who may be first, and the top group instead of a lone first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slideseek.types import Int64
from slideseek_apps.bench.rank_stability import Stability, rank_stability
from slideseek_apps.bench.report.comparisons import restrict
from slideseek_apps.bench.report.retrieval_tables import MACRO_F1, SectionTables
from slideseek_apps.bench.report.sections import Section, VariantResults
from slideseek_apps.bench.report.table import Column, Number, Row, Table


def stability_of(tables: SectionTables, variants: Sequence[VariantResults]) -> Mapping[str, Stability]:
    """Return the stability of each variant's place by macro F1, by name; nothing for fewer than two variants.

    Only queries that every variant answered count.
    """
    section = tables.section
    common = set.intersection(*(set(lists.ids) for variant in variants for lists in variant.lists))
    if len(variants) < 2 or not common:
        return {}
    sums = tables.votes()[1]
    stacks = [np.stack([sums(restrict(section, lists, common)) for lists in variant.lists]) for variant in variants]
    found = rank_stability(stacks, sites_of(section), MACRO_F1, tables.settings.resamples)
    return {variant.name: one for variant, one in zip(variants, found)}


def sites_of(section: Section) -> Int64:
    """Return the number of the site of each patient, int64 (patients,): that of the patient's first slide.

    Where queries have no site, the label stands for it if it is the site that is searched for.
    """
    first: dict[str, str] = {}
    own = section.cells[0].protocol.target == "site"
    for query in (query for variant in section.variants for lists in variant.lists for query in lists.queries):
        first.setdefault(query.patient or f"\0{query.query_id}", query.site or (query.label if own else ""))
    names = sorted(set(first.values()))
    return np.array([names.index(first.get(patient, names[0])) for patient in section.patients], dtype=np.int64)


def ranks_table(tables: SectionTables, variants: Sequence[VariantResults]) -> Table | None:
    """Return the table of places; None when there is nothing to order."""
    found = stability_of(tables, variants)
    if not found:
        return None
    order = sorted(variants, key=lambda variant: -(tables.macro_f1(variant).value or 0.0))
    rows = []
    for variant in order:
        one = found[variant.name]
        span = str(one.low) if one.low == one.high else f"{one.low}–{one.high}"
        first = Number(100 * one.first, digits=1)
        rows.append(Row((variant.name,), (tables.macro_f1(variant), first, span, "yes" if one.top else "no")))
    sites = len(set(sites_of(tables.section).tolist()))
    caption = (
        f"By macro F1, {tables.vote}. Paired bootstrap: sites are drawn with replacement ({sites} here), then patients "
        f"within them, {tables.settings.resamples:,} times, the same for all engines. Ranks: the middle 95 %. Top "
        "group: the middle 95 % of the difference to the best engine includes zero. No engine of the top group can be "
        "called the best."
    )
    columns = (Column("macro F1"), Column("first (%)"), Column("ranks"), Column("top group"))
    return Table("ranks", "Stability of the order", caption, ("engine",), columns, tuple(rows))
