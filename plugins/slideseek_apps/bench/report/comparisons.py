"""The table of paired tests between variants, with Holm's correction."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError
from slideseek.types import Float64
from slideseek_apps.bench.bootstrap import LEVEL as INTERVAL
from slideseek_apps.bench.bootstrap import Resampled
from slideseek_apps.bench.measure_sums import ListSums
from slideseek_apps.bench.paired_test import Difference, compare, holm
from slideseek_apps.bench.report.retrieval_tables import MACRO_F1, SectionTables
from slideseek_apps.bench.report.sections import OnStep, Section, Sums, VariantResults, silent
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.report.table import Column, Number, Row, Table

LEVEL = 0.05
MOST_FOR_ALL_PAIRS = 8


def compare_variants(
    tables: SectionTables, variants: Sequence[VariantResults], on_step: OnStep = silent
) -> Table | None:
    """Return the table of paired tests of macro F1; None when there is nothing to compare."""
    section, settings = tables.section, tables.settings
    found: list[tuple[VariantResults, VariantResults, Difference, tuple[float, float]]] = []
    pairs = _pairs(section, variants, settings)
    for number, (first, second) in enumerate(pairs, 1):
        on_step(f"{section.name}: comparison {number} of {len(pairs)}")
        shared = shared_sums(section, first, second, tables.votes()[1])
        if shared is not None:
            difference = compare(*shared, MACRO_F1, settings.permutations)
            found.append((first, second, difference, _interval(tables, first, second, shared)))
    if not found:
        return None
    corrected = holm([difference.p for _, _, difference, _ in found])
    rows = [
        Row(
            (first.name, second.name),
            (
                Number(100 * difference.value, 100 * low, 100 * high, signed=True),
                Number(difference.p, digits=4),
                Number(adjusted, digits=4),
                "yes" if adjusted < LEVEL else "no",
            ),
        )
        for (first, second, difference, (low, high)), adjusted in zip(found, corrected)
    ]
    tested = "one comparison" if len(rows) == 1 else f"the {len(rows)} comparisons of this table"
    caption = (
        f"Difference in macro F1, {tables.vote}, in points. Two-sided permutation test that swaps the engines "
        f"patient by patient ({settings.permutations:,} permutations), on the slides both answered; Holm's "
        f"correction over {tested}. Significant: corrected p < {LEVEL:g}. "
        "Brackets: 95 % paired bootstrap interval over patients."
    )
    columns = (Column("difference"), Column("p"), Column("p, Holm"), Column("significant"))
    return Table("comparisons", "Paired comparisons", caption, ("engine", "against"), columns, tuple(rows))


def shared_sums(
    section: Section, first: VariantResults, second: VariantResults, sums: Sums
) -> tuple[Float64, Float64] | None:
    """Return the sums of two variants over the slides both answered, seed by seed; None when they share none.

    A variant with one seed, such as one that does not learn, is paired with every seed of the other.
    """
    stacks: tuple[list[Float64], list[Float64]] = ([], [])
    for one, other in _seed_pairs(first, second):
        common = set(one.ids) & set(other.ids)
        if common:
            for stack, lists in zip(stacks, (one, other)):
                stack.append(sums(restrict(section, lists, common)))
    return (np.stack(stacks[0]), np.stack(stacks[1])) if stacks[0] else None


def _interval(
    tables: SectionTables, first: VariantResults, second: VariantResults, shared: tuple[Float64, Float64]
) -> tuple[float, float]:
    """Return the percentile interval of the difference, with the same draws of patients for both."""
    if [lists.ids for lists in first.lists] == [lists.ids for lists in second.lists] and first.seeds == second.seeds:
        drawn = [tables.estimates[v.name].resampled(*tables.votes()) for v in (first, second)]
    else:
        drawn = [Resampled(sums, tables.settings.resamples) for sums in shared]
    one, other = (resampled.resampled(MACRO_F1) for resampled in drawn)
    low, high = np.percentile(one - other, (50 * (1 - INTERVAL), 50 * (1 + INTERVAL)))
    return float(low), float(high)


def _seed_pairs(first: VariantResults, second: VariantResults) -> list[tuple[ListSums, ListSums]]:
    if len(first.seeds) == 1 or len(second.seeds) == 1:
        return list(itertools.product(first.lists, second.lists))
    by_seed = dict(zip(second.seeds, second.lists))
    return [(lists, by_seed[seed]) for seed, lists in zip(first.seeds, first.lists) if seed in by_seed]


def restrict(section: Section, lists: ListSums, ids: set[str]) -> ListSums:
    """Return the lists of some queries alone."""
    if len(ids) == len(lists.ids):
        return lists
    queries = [query for query in lists.queries if query.query_id in ids]
    return ListSums(queries, section.by_site, section.patients, section.classes)


def _pairs(
    section: Section, variants: Sequence[VariantResults], settings: ReportSettings
) -> list[tuple[VariantResults, VariantResults]]:
    if settings.against:
        named = next((v for v in section.variants if v.name == settings.against), None)
        if named is None:
            fix = did_you_mean(
                settings.against,
                [v.name for v in section.variants],
                f"the names are {', '.join(v.name for v in section.variants)}",
            )
            raise UsageError(f"--against: no engine {settings.against!r} in {section.name}", fix)
        return [(variant, named) for variant in variants if variant is not named]
    if len(variants) <= MOST_FOR_ALL_PAIRS:
        return [(second, first) for first, second in itertools.combinations(variants, 2)]
    return [(variant, variants[0]) for variant in variants[1:]]
