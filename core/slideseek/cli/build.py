"""`slideseek build`: run the missing steps."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import archive_option, json_option
from slideseek.cli.output import print_json

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
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(0, 64), help="Slides to read ahead while computing."
)
@click.option(
    "--patience",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Give up on a slide after this many seconds without progress in reading it.",
)
@click.option(
    "--watch",
    "watched",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Take in the slides of FOLDER as they come, and build, until interrupted: see 'slideseek watch'.",
)
@json_option
def command(
    folder: Path | None,
    names: tuple[str, ...],
    recompute: tuple[Any, ...],
    refit: bool,
    workers: int,
    patience: float,
    verify: bool,
    watched: Path | None,
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

    if watched is not None:
        if refit or verify or recompute:
            raise UsageError("--watch cannot be combined with --refit, --verify or --recompute", "build first")
        return _watch(watched=watched, folder=folder, names=names, workers=workers, patience=patience, as_json=as_json)
    options = BuildOptions(refit=refit, workers=workers, patience=patience, verify=verify, recompute=recompute)
    with open_archive(folder) as archive, make_reporter() as reporter:
        reporter.loading("engines")
        summary = archive.build(names, options=options, reporter=reporter)
    with contextlib.suppress(BrokenPipeError):  # nobody reads the summary: the exit code still counts
        if as_json:
            print_json(_data(summary, reporter.counts))
        else:
            _print(summary, reporter.counts)
    return EXIT_FAILED_SLIDES if summary.failures else 0


def _watch(**given: Any) -> int:
    """Run the command `watch` of an application."""
    from slideseek.errors import PluginError

    context = click.get_current_context()
    group = context.find_root().command
    command = group.get_command(context, "watch") if isinstance(group, click.Group) else None
    if command is None:
        raise PluginError("--watch needs the application 'watch', which is not installed", "install slideseek again")
    return int(context.invoke(command, **given))


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
        "report": str(summary.report),
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
    click.echo(f"report: {summary.report}")
