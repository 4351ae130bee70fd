"""Assemble a report: the cells decide which tables and figures it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slideseek import __version__
from slideseek_apps.bench.report.classification_table import classification_tables
from slideseek_apps.bench.report.comparisons import compare_variants
from slideseek_apps.bench.report.conventions import conventions_table
from slideseek_apps.bench.report.figures import Figure, engines_figure, size_figure, sweep_figures
from slideseek_apps.bench.report.hub_table import hub_table
from slideseek_apps.bench.report.ranks import ranks_table
from slideseek_apps.bench.report.retrieval_tables import SectionTables
from slideseek_apps.bench.report.sections import OnStep, Section, heading, make_sections, silent
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.report.swept_options import sweep_families
from slideseek_apps.bench.report.table import Table
from slideseek_apps.bench.report.training_figures import training_figures
from slideseek_apps.bench.report.training_table import options_table, training_table
from slideseek_apps.bench.results import Cell

TRIAL = "Trial run, not a result"
"""What stands before the title of a run shortened with `--quick`, in every format."""


@dataclass(frozen=True, slots=True)
class Part:
    """One dataset under one protocol. facts: values by name, shown under the heading."""

    heading: str
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report, independent of the format. trial: of a run shortened with `--quick`, so of no results."""

    title: str
    facts: Mapping[str, str]
    parts: tuple[Part, ...]
    trial: bool = False


def make_report(
    title: str, cells: Sequence[Cell], settings: ReportSettings, superseded: int = 0, on_step: OnStep = silent
) -> Report:
    """Make the report of some cells; tables show engines in the order of their cells, controls last.

    superseded: number of cells left out for newer ones, which the report mentions. on_step: called with a few words on
    the current step, since thousands of queries take a while.
    """
    ordered = sorted(cells, key=lambda cell: cell.control)
    parts = [_retrieval(section, settings, on_step) for section in make_sections(ordered, on_step)]
    facts = {heading(cell): _cell_facts(cell) for cell in reversed(ordered)}
    for name, table in classification_tables(ordered, settings):
        _append(parts, name, table, facts[name])
    for name, figure in training_figures(ordered):
        _append(parts, name, figure, facts[name])
    trial = any(cell.trial for cell in ordered)
    return Report(f"{TRIAL}: {title}" if trial else title, _facts(ordered, superseded), tuple(parts), trial)


def _retrieval(section: Section, settings: ReportSettings, on_step: OnStep) -> Part:
    on_step(f"{section.name}: intervals")
    tables = SectionTables(section, settings)
    families = sweep_families(section)
    shown = section.plain or section.variants
    made = [tables.overview(), training_table(section)]
    figures: list[Figure] = []
    if len(section.variants) > 1:
        figures.append(engines_figure(tables, section.variants))
    if section.plain or not families:
        made.append(tables.engines_by_class(shown))
    for family in families:
        made.append(tables.sweep(family))
        figures += sweep_figures(tables, family)
    size = size_figure(tables)
    if size is not None:
        figures.append(size)
    if not section.cells[0].control:
        ordered = shown if len(shown) > 1 else section.variants
        compared = compare_variants(tables, ordered, on_step)
        ranks = ranks_table(tables, ordered)
        made += [table for table in (compared, ranks, hub_table(section, settings.k)) if table]
    on_step(f"{section.name}: every convention")
    made += [conventions_table(section, settings), options_table(section)]
    return Part(section.name, _section_facts(section), tuple(made), tuple(figures))


def _append(parts: list[Part], name: str, thing: Table | Figure, facts: Mapping[str, str]) -> None:
    """Add a table or figure to the part of that heading; without one, start a part with these facts."""
    place = next((i for i, part in enumerate(parts) if part.heading == name), None)
    old = parts[place] if place is not None else Part(name, facts)
    if isinstance(thing, Table):
        new = Part(name, old.facts, (*old.tables, thing), old.figures)
    else:
        new = Part(name, old.facts, old.tables, (*old.figures, thing))
    if place is None:
        parts.append(new)
    else:
        parts[place] = new


def _section_facts(section: Section) -> dict[str, str]:
    cell = section.cells[0]
    protocol, dataset = cell.protocol, cell.dataset
    facts = {
        "dataset": f"{dataset.name}: {dataset.slides:,} slides of {dataset.patients:,} patients",
        "search": f"{protocol.mode}, target {protocol.target}, leave one {protocol.leave_out} out",
        "fit": _fits(section),
        "queries": f"{len({name for v in section.variants for lists in v.lists for name in lists.ids}):,} slides of "
        f"{len(section.patients):,} patients, {len(section.classes)} classes",
        "fingerprint": dataset.fingerprint[:16],
    }
    off = sorted({name for c in section.cells for name in c.guards_off})
    if off:
        facts["guards switched off"] = ", ".join(off)
    if cell.control:
        facts["control"] = "labels were shuffled on purpose: numbers above chance mean that labels leak"
    return {name: value for name, value in facts.items() if value}


def _cell_facts(cell: Cell) -> dict[str, str]:
    """Return the facts of a section without ranked lists."""
    dataset = cell.dataset
    facts = {
        "dataset": f"{dataset.name}: {dataset.slides:,} slides of {dataset.patients:,} patients",
        "fit": cell.protocol.fit,
        "fingerprint": dataset.fingerprint[:16],
        "guards switched off": ", ".join(cell.guards_off),
    }
    return {name: value for name, value in facts.items() if value}


def _fits(section: Section) -> str:
    """Say how engines were kept from seeing their queries, and which engines learn nothing."""
    learning = sorted({c.protocol.fit for c in section.cells if c.protocol.fit != "none"})
    still = list(dict.fromkeys(c.engine for c in section.cells if c.protocol.fit == "none"))
    if not learning:
        return "no engine learns"
    return ", ".join(learning) + (f" ({', '.join(still)}: nothing is learnt)" if still else "")


def _facts(cells: Sequence[Cell], superseded: int) -> dict[str, str]:
    versions: dict[str, set[str]] = {}
    for cell in cells:
        for name, version in cell.versions.items():
            versions.setdefault(name, set()).add(str(version))
    created = [cell.created for cell in cells if cell.created]
    facts = {
        "cells": str(len(cells)) + (f", {superseded} older ones of the same names left out" if superseded else ""),
        "seeds": ", ".join(str(seed) for seed in sorted({cell.seed for cell in cells})),
        "run": f"{min(created)[:16]} to {max(created)[:16]}".replace("T", " ") if created else "",
        "command": "; ".join(dict.fromkeys(cell.command for cell in cells if cell.command)),
        "versions": "; ".join(_grouped_versions(versions)),
        "report": f"slideseek {__version__}",
    }
    return {name: value for name, value in facts.items() if value}


def _grouped_versions(versions: Mapping[str, set[str]]) -> list[str]:
    """Return versions: programs first, then components (`encoder mean`, `index cosine`), grouped by version."""
    shared: dict[str, list[str]] = {}
    for name, seen in sorted(versions.items(), key=lambda item: (" " in item[0], item[0])):
        version = "/".join(sorted(seen))
        shared.setdefault(f": {version}" if " " in name else f" {name} {version}", []).append(name)
    return [key.strip() if key.startswith(" ") else f"{', '.join(names)}{key}" for key, names in shared.items()]
