"""`slideseek bench run`: every engine, variant, protocol and seed of a configuration."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import json_option
from slideseek.cli.output import print_json, print_table, say, say_problem

if TYPE_CHECKING:
    from slideseek.bench.datasets.dataset import Dataset
    from slideseek.bench.runner import BenchSummary


@click.command()
@click.argument("config", required=False)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    help="Results folder (default: bench-CONFIG-DATA here).",
)
@click.option("--data", type=click.Path(path_type=Path), help="Run on the data at this path instead.")
@click.option("--dataset", "kind", help="The kind of --data (default: told from what is there).")
@click.option("--only", multiple=True, metavar="NAME", help="Only this engine or variant (may be repeated).")
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="Change the configuration (may be repeated).")
@click.option("--control", is_flag=True, help="Add cells with shuffled labels, which must fall to chance.")
@click.option("--quick", "in_a_hurry", is_flag=True, help="2 epochs, 2 folds, one seed: a try, not a result.")
@click.option("--list", "listed", is_flag=True, help="List the ready configurations and the kinds of data.")
@json_option
def command(
    config: str | None,
    folder: Path | None,
    data: Path | None,
    kind: str | None,
    only: tuple[str, ...],
    given: tuple[str, ...],
    control: bool,
    in_a_hurry: bool,
    listed: bool,
    as_json: bool,
) -> int:
    """Run a grid of engines over a dataset and keep what every query found.

    CONFIG is a TOML file or a ready configuration such as 'table1'. Only cells that are missing run; stopped at any
    moment, the same command goes on. 'slideseek bench report DIR' then computes every measure.
    """
    if listed:
        _list(as_json)
        return 0
    if config is None:
        raise click.UsageError("Missing argument 'CONFIG'. 'slideseek bench run --list' shows the ready ones.")
    from slideseek.bench.config import parse_bench_config
    from slideseek.bench.datasets import load_dataset
    from slideseek.bench.overrides import quick, with_data, with_settings, with_whole_paths
    from slideseek.bench.ready import find_config
    from slideseek.bench.runner import BenchRunner
    from slideseek.cli.progress import make_reporter
    from slideseek.plugins import load_registry

    registry = load_registry()
    found = find_config(config)
    table = with_data(found.data, data, kind)
    if in_a_hurry:
        table = quick(table, registry)
    table = with_whole_paths(with_settings(table, given, registry), found.base)
    parsed = parse_bench_config(table, found.base, found.name)
    with make_reporter() as reporter:
        reporter.loading(f"dataset {parsed.kind}")
        dataset = load_dataset(parsed.kind, parsed.dataset_options, found.base)
        for note in dataset.notes:
            reporter.note(note)
        target = folder or Path(f"bench-{parsed.name}-{dataset.name}")
        summary = BenchRunner(parsed, dataset, registry, target, reporter).run(only, control)
    for problem in dataset.problems:
        say_problem(problem.subject, problem.cause, problem.fix)
    with contextlib.suppress(BrokenPipeError):  # the run is done, whoever reads about it: the exit code says how
        if as_json:
            print_json(_data(summary, dataset))
        else:
            _print(summary, dataset)
    return 0 if summary.sound and not dataset.problems else EXIT_FAILED_SLIDES


def _list(as_json: bool) -> None:
    from slideseek.bench.datasets import ADAPTERS
    from slideseek.bench.ready import ready_configs

    kinds = {entry.kind: entry.summary for entry in ADAPTERS.values()}
    if as_json:
        print_json({"configs": ready_configs(), "datasets": kinds})
        return
    print_table(("ready configuration", "what it makes"), ready_configs().items())
    print_table(("kind of data", "what it is"), kinds.items())


def _data(summary: BenchSummary, dataset: Dataset) -> dict[str, Any]:
    return {
        "folder": str(summary.folder),
        "dataset": {
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "slides": len(dataset.records),
            "patients": dataset.patients,
        },
        "cells": [_cell(summary, plan.name, plan.key) for plan in summary.plans],
        "controls": {name: verdict.data() for name, verdict in summary.verdicts.items()},
        "problems": [{"subject": p.subject, "cause": p.cause, "fix": p.fix} for p in dataset.problems],
        "notes": [*dataset.notes, *summary.notes],
        "stale": summary.stale,
    }


def _cell(summary: BenchSummary, name: str, key: str) -> dict[str, str]:
    if name in summary.failed:
        error = summary.failed[name]
        return {"name": name, "key": key, "outcome": "failed", "cause": error.cause, "fix": error.fix}
    return {"name": name, "key": key, "outcome": "ok" if name in summary.ran else "done before"}


def _print(summary: BenchSummary, dataset: Dataset) -> None:
    failed = f", {len(summary.failed)} failed" if summary.failed else ""
    click.echo(
        f"{len(summary.plans)} cells on {dataset.name} ({len(dataset.records)} slides, {dataset.patients} patients):"
        f" {len(summary.ran)} run, {len(summary.done)} done before{failed}"
    )
    if summary.stale:
        say(f"note    {summary.stale} cell(s) in {summary.folder} are of other configurations; a report shows them too")
    click.echo(f"results: {summary.folder}")
    click.echo(f"next: slideseek bench report {summary.folder}")
