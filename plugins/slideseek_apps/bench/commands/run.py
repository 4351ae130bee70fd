"""`slideseek bench run`: every engine, variant, protocol and seed of a configuration."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import json_option
from slideseek.cli.output import print_json, print_table, say, say_problem

if TYPE_CHECKING:
    from slideseek.plugins import Registry
    from slideseek_apps.bench.bundled_configs import FoundConfig
    from slideseek_apps.bench.datasets.dataset import Dataset
    from slideseek_apps.bench.runner import BenchSummary


@click.command()
@click.argument("config", required=False)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    help="Results folder (default: bench-CONFIG-DATA here).",
)
@click.option(
    "--data", type=click.Path(path_type=Path), multiple=True, help="Run on the data at this path (may be repeated)."
)
@click.option("--dataset", "kind", help="The kind of --data (default: the kind that recognises the path).")
@click.option("--only", multiple=True, metavar="NAME", help="Only this engine or variant (may be repeated).")
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="Change the configuration (may be repeated).")
@click.option("--control", is_flag=True, help="Add cells with shuffled labels, which must score at chance.")
@click.option("--quick", "short", is_flag=True, help="2 epochs, 2 folds, one seed: a trial, not a result.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write the report there at the end, as 'bench report -o' does."
)
@click.option("--list", "listed", is_flag=True, help="List the bundled configurations and the kinds of data.")
@json_option
def command(
    config: str | None,
    folder: Path | None,
    data: tuple[Path, ...],
    kind: str | None,
    only: tuple[str, ...],
    given: tuple[str, ...],
    control: bool,
    short: bool,
    report: Path | None,
    listed: bool,
    as_json: bool,
) -> int:
    """Run a grid of engines over a dataset and keep what every query found.

    CONFIG is a TOML file or a bundled configuration such as 'table1'. Only missing cells run: the same command resumes
    a run that was stopped. 'slideseek bench report DIR' then computes every measure.
    """
    from slideseek.plugins import COMPONENT_KINDS, load_registry

    registry = load_registry(kinds=(*COMPONENT_KINDS, "dataset"))
    if listed:
        _list(registry, as_json)
        return 0
    if config is None:
        raise click.UsageError("Missing argument 'CONFIG'. 'slideseek bench run --list' shows the bundled ones.")
    from slideseek_apps.bench.bundled_configs import find_config
    from slideseek_apps.bench.overrides import quick, with_absolute_paths, with_data, with_settings
    from slideseek_apps.bench.report.formats import formats_of

    if report is not None:
        formats_of(report, None)  # an unknown format is an error now, not after hours of work
    found = find_config(config)
    tables = []
    for path in data or (None,):
        table = with_data(found.data, path, kind, registry, lambda text: say(f"note    {text}"))
        if short:
            table = quick(table, registry)
        tables.append(with_absolute_paths(with_settings(table, given, registry), found.base, registry))
    spelled = _spelled(config, data, kind, only, given, control, short)
    runs = _run(found, [{**table, "command": spelled} for table in tables], registry, folder, only, control)
    with contextlib.suppress(BrokenPipeError):  # the run is done even if nobody reads its output
        if as_json:
            facts = [_data(summary, dataset) for summary, dataset in runs]
            print_json(facts[0] if len(facts) == 1 else {"runs": facts})
        else:
            for summary, dataset in runs:
                _print(summary, dataset)
        _finish([summary.folder for summary, _ in runs], report, as_json)
    return 0 if all(summary.sound and not dataset.problems for summary, dataset in runs) else EXIT_FAILED_SLIDES


def _spelled(
    config: str,
    data: Sequence[Path],
    kind: str | None,
    only: Sequence[str],
    given: Sequence[str],
    control: bool,
    short: bool,
) -> str:
    """Return the command that ran, for the record. Folders are left out: results are shared."""
    words = ["slideseek", "bench", "run", Path(config).name]
    for option, values in (("--data", [path.name for path in data]), ("--only", only), ("--set", given)):
        words += [word for value in values for word in (option, value)]
    words += ["--dataset", kind] if kind else []
    return shlex.join([*words, *(["--control"] if control else []), *(["--quick"] if short else [])])


def _run(
    found: FoundConfig,
    tables: Sequence[dict[str, Any]],
    registry: Registry,
    folder: Path | None,
    only: Sequence[str],
    control: bool,
) -> list[tuple[BenchSummary, Dataset]]:
    """Run the configuration on each dataset; with several, each has its own folder, inside `folder` if it is given."""
    from slideseek.cli.progress import make_reporter
    from slideseek.errors import UsageError
    from slideseek_apps.bench.config import parse_bench_config
    from slideseek_apps.bench.datasets import load_dataset
    from slideseek_apps.bench.runner import BenchRunner

    runs = []
    seen: set[Path] = set()
    configs = [parse_bench_config(table, found.base, found.name, registry) for table in tables]
    for parsed in configs:
        with make_reporter() as reporter:
            reporter.loading(f"dataset {parsed.kind}")
            dataset = load_dataset(parsed.kind, parsed.dataset_options, found.base, registry)
            for note in dataset.notes:
                reporter.note(note)
            target = Path(f"bench-{parsed.name}-{dataset.name}")
            if folder is not None:
                target = folder / dataset.name if len(configs) > 1 else folder
            if target in seen:
                raise UsageError(f"two datasets are named {dataset.name!r}", "run each separately, with its own -o")
            seen.add(target)
            runs.append((BenchRunner(parsed, dataset, registry, target, reporter).run(only, control), dataset))
        for problem in dataset.problems:
            say_problem(problem.subject, problem.cause, problem.fix)
    return runs


def _finish(folders: Sequence[Path], report: Path | None, quiet: bool) -> None:
    """Write the report, or print the command that makes one. quiet: standard output is for JSON."""
    if report is None:
        if not quiet:
            click.echo(f"next: slideseek bench report {shlex.join(map(str, folders))}")
        return
    from slideseek_apps.bench.progress import telling
    from slideseek_apps.bench.report.assemble import make_report
    from slideseek_apps.bench.report.formats import formats_of, write_report
    from slideseek_apps.bench.report.settings import ReportSettings
    from slideseek_apps.bench.results import merge_results, read_results

    results = merge_results([read_results(folder) for folder in folders])
    with telling() as on_step:
        made = make_report(results.title, results.cells, ReportSettings(), results.superseded, on_step)
    for path in write_report(made, report, formats_of(report, None), lambda text: say(f"note    {text}")):
        say(f"wrote {path}") if quiet else click.echo(f"wrote {path}")


def _list(registry: Registry, as_json: bool) -> None:
    from slideseek_apps.bench.bundled_configs import bundled_configs

    kinds = {entry.name: entry.summary for entry in registry.registrations("dataset")}
    if as_json:
        print_json({"configs": bundled_configs(), "datasets": kinds})
        return
    print_table(("bundled configuration", "what it makes"), bundled_configs().items())
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
        say(
            f"note    {summary.stale} cell(s) in {summary.folder} are from other configurations; a report includes them"
        )
    click.echo(f"results: {summary.folder}")
