"""`slideseek export`: features, patches, codes and the table of slides, for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import archive_option, json_option, open_archive
from slideseek.cli.output import print_json, say, say_problem


@click.command()
@click.argument("what", type=click.Choice(["features", "patches", "codes", "table"]))
@click.argument("slides", nargs=-1)
@archive_option
@click.option("--engine", "name", help="The engine whose results to export (default: the first one configured).")
@click.option(
    "-o",
    "--output",
    "output",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder to write to; it is made if it is not there.",
)
@click.option("--force", is_flag=True, help="Replace files that are there already.")
@json_option
def command(
    what: str, slides: tuple[str, ...], folder: Path | None, name: str | None, output: Path, force: bool, as_json: bool
) -> int:
    """Write results for other tools: of SLIDES (ids), or of every slide that has them.

    features: one HDF5 a slide, as TRIDENT writes them. patches: one GeoJSON a slide, for QuPath. codes: one .npz.
    table: one CSV of all that is known about the slides, and how every engine (or the one named) stands.
    """
    from dataclasses import asdict

    from slideseek.indexing.live_index import open_engine
    from slideseek.plugins import load_registry
    from slideseek_apps.interchange.export_codes import export_codes
    from slideseek_apps.interchange.export_features import export_features
    from slideseek_apps.interchange.export_output import Destination, SlideChoice
    from slideseek_apps.interchange.export_patches import export_patches
    from slideseek_apps.interchange.export_table import export_table

    with open_archive(folder) as archive:
        choice, destination = SlideChoice.of(archive, slides), Destination(output, force)
        config = archive.config.engine(name)
        if what == "table":
            summary = export_table(archive, name and config.name, choice, destination)
        else:
            export = {"features": export_features, "patches": export_patches, "codes": export_codes}[what]
            summary = export(archive, open_engine(archive, config, load_registry()), choice, destination)
    if as_json:
        print_json({"what": what, **asdict(summary)})
        return EXIT_FAILED_SLIDES if summary.problems else 0
    for note in summary.notes:
        say(f"note    {note}")
    for problem in summary.problems:
        say_problem(problem.subject, problem.cause, problem.fix)
    click.echo(f"{what} of {len(summary.slides)} slides written to {output}, {len(summary.problems)} failed")
    return EXIT_FAILED_SLIDES if summary.problems else 0
