"""`slideseek export`: write features, patches, codes and the table of slides for other tools."""

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
    help="Output folder. Created if it does not exist.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@json_option
def command(
    what: str, slides: tuple[str, ...], folder: Path | None, name: str | None, output: Path, force: bool, as_json: bool
) -> int:
    """Export the results of SLIDES (ids), or of all slides that have them, for other tools.

    features: one HDF5 file per slide, as TRIDENT writes them. patches: one GeoJSON file per slide, for QuPath. codes:
    one .npz file. table: one CSV file with the metadata of the slides and their state in every engine (or in --engine).
    """
    from dataclasses import asdict

    from slideseek.indexing.live_index import open_engine
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
            summary = export(archive, open_engine(archive, config, archive.registry()), choice, destination)
    if as_json:
        print_json({"what": what, **asdict(summary)})
        return EXIT_FAILED_SLIDES if summary.problems else 0
    for note in summary.notes:
        say(f"note    {note}")
    for problem in summary.problems:
        say_problem(problem.subject, problem.cause, problem.fix)
    click.echo(f"wrote {what} of {len(summary.slides)} slides to {output}, {len(summary.problems)} failed")
    return EXIT_FAILED_SLIDES if summary.problems else 0
