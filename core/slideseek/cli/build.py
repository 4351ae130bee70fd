"""`slideseek build`: do what is missing."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import archive_option, json_option, open_archive
from slideseek.cli.output import print_json


@click.command()
@archive_option
@click.option("--engine", "names", multiple=True, help="Build only this engine (may be repeated; default: all).")
@click.option("--refit", is_flag=True, help="Fit trainable encoders again, on all slides there are now.")
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(0, 64), help="Slides to read ahead while computing."
)
@click.option(
    "--patience",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Give a slide up after so many seconds without progress in reading it.",
)
@json_option
def command(
    folder: Path | None, names: tuple[str, ...], refit: bool, workers: int, patience: float, as_json: bool
) -> int:
    """Select, featurize, fit, encode and index what is not done yet.

    A run can be stopped at any moment and started again: it goes on where it was. A bad slide is one line with
    its cause and the fix, and the exit code is 3.
    """
    from slideseek.building.build import Builder, BuildOptions
    from slideseek.cli.progress import make_reporter
    from slideseek.engine import make_engines
    from slideseek.plugins import load_registry

    with open_archive(folder) as archive:
        config = archive.config
        engines = make_engines([config.engine(name) for name in names] or config.engines, load_registry())
        with make_reporter() as reporter:
            summary = Builder(archive, engines, reporter, BuildOptions(refit, workers, patience)).run()
    counts = {name: summary.counts.get(name, 0) for name in ("ok", "skipped", "failed")}
    if as_json:
        failures = {
            r.slide_id: {"cause": r.cause, "fix": r.fix}
            for r in sorted(summary.failures.values(), key=lambda r: r.slide_id)
        }
        print_json(
            {
                "slides": counts,
                "failures": failures,
                "indexed": summary.indexed,
                "seconds": summary.seconds,
                "report": str(summary.report),
            }
        )
    else:
        click.echo(", ".join(f"{count} {name}" for name, count in counts.items()))
        for engine, slides in summary.indexed.items():
            click.echo(f"engine {engine!r}: {slides} slides indexed")
        if summary.failures:
            click.echo(
                f"{len(summary.failures)} slide(s) failed: 'slideseek status --failed' lists them with cause and fix"
            )
        click.echo(f"report: {summary.report}")
    return EXIT_FAILED_SLIDES if summary.failures else 0
