"""`slideseek build`: run the missing steps."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import archive_option, executor_options, json_option, run_application, wait_option
from slideseek.cli.output import print_json, say

SLURM = ("ID", "MIN", "STEP", "COUNT")
"""What Slurm says in the environment about the task of an array."""

if TYPE_CHECKING:
    from slideseek.building.reporting import BuildSummary, Outcome


@click.command()
@archive_option
@click.option("--engine", "names", multiple=True, help="Build only this engine (may be repeated; default: all).")
@click.option("--verify", is_flag=True, help="First check everything stored; damaged results are computed again.")
@click.option(
    "--recompute",
    multiple=True,
    type=click.Choice(("select", "featurize", "fit", "encode", "index")),
    help="Compute this stage and all that depend on it again, although nothing has changed (may be repeated).",
)
@click.option("--refit", is_flag=True, help="Fit trainable encoders again, on all current slides.")
@executor_options
@click.option(
    "--shard",
    metavar="I/N",
    help="Compute only the features of part I of N and leave them for the next build; 'auto' asks Slurm's array.",
)
@click.option(
    "--watch",
    "watched",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Take in the slides of FOLDER as they come, and build, until interrupted: see 'slideseek watch'.",
)
@wait_option
@json_option
def command(
    folder: Path | None,
    names: tuple[str, ...],
    recompute: tuple[Any, ...],
    refit: bool,
    executor: str,
    workers: int | None,
    patience: float | None,
    shard: str | None,
    verify: bool,
    watched: Path | None,
    wait: bool,
    as_json: bool,
) -> int:
    """Select, featurize, fit, encode and index what is not done yet.

    A run can be stopped at any time and started again: it continues where it stopped. Each failed slide is reported
    on one line with its cause and fix, and the exit code is then 3. Slides can be searched while others are computed.
    """
    from slideseek.api import open_archive
    from slideseek.building.build import BuildOptions
    from slideseek.cli.progress import make_reporter
    from slideseek.errors import UsageError

    part = _shard(shard) if shard else None
    if (watched or part) and (refit or verify or recompute or (watched and part)):
        raise UsageError("--watch and --shard cannot be combined with --refit, --verify or --recompute", "build first")
    run = {"executor": executor, "workers": workers, "patience": patience}
    if watched is not None:
        return run_application("watch", "--watch", watched=watched, folder=folder, names=names, as_json=as_json, **run)
    options = BuildOptions(refit, recompute, executor, workers, patience, verify, shard=part)
    with open_archive(folder, still=part is not None) as archive, make_reporter() as reporter:
        archive.archive.wait = say if wait else None
        reporter.loading("engines")
        summary = archive.build(names, options=options, reporter=reporter)
    with contextlib.suppress(BrokenPipeError):  # nobody reads the summary: the exit code still counts
        if as_json:
            print_json(_data(summary, reporter.counts))
        else:
            _print(summary, reporter.counts)
    return EXIT_FAILED_SLIDES if summary.failures else 0


def _shard(text: str) -> tuple[int, int]:
    """Read `I/N`, or `auto` for what Slurm says about the task of an array: its first task is part 1."""
    from slideseek.errors import UsageError

    number, _, total = text.partition("/")
    if text == "auto":
        task, first, step, total = (os.environ.get(f"SLURM_ARRAY_TASK_{name}", "") for name in SLURM)
        if not total:
            raise UsageError("--shard auto: this is not a task of a Slurm array", "write --shard I/N")
        number = str((int(task) - int(first)) // int(step or 1) + 1)
    if not (number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise UsageError(f"--shard: part {number} of {total!r}", "write --shard I/N with I from 1 to N")
    return int(number), int(total)


def _data(summary: BuildSummary, counts: dict[Outcome, int]) -> dict[str, Any]:
    failures = sorted(summary.failures.values(), key=lambda report: report.slide_id)
    return {
        "slides": counts,
        "failures": {report.slide_id: {"cause": report.cause, "fix": report.fix} for report in failures},
        "known": {name: report.cause for name, report in sorted(summary.known.items())},
        "indexed": summary.indexed,
        **summary.tissue,
        "notes": summary.notes,
        "seconds": summary.seconds,
        "report": str(summary.report or ""),
    }


def _print(summary: BuildSummary, counts: dict[Outcome, int]) -> None:
    click.echo(f"{sum(counts.values())} slides: {', '.join(f'{count} {name}' for name, count in counts.items())}")
    for engine, slides in summary.indexed.items():
        click.echo(f"engine {engine!r}: {slides} slides indexed")
    if found := summary.tissue["tissue_um2"]:
        left = summary.tissue["left_out_um2"]
        click.echo(f"tissue: {found:,.0f} µm² found, {left:,.0f} µm² ({left / found:.0%}) in no patch")
    if summary.failures:
        click.echo("'slideseek status --failed' lists the failed slides with their causes and fixes")
    click.echo(f"report: {summary.report}" if summary.report else "the next 'slideseek build' takes the features in")
