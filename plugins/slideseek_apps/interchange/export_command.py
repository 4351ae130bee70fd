"""`slideseek export`: write features, patches, codes, hits and the table of slides for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import archive_option, json_option, open_archive
from slideseek.cli.output import print_json, say, say_problem

FORMATS = {
    "features": ("h5",),
    "patches": ("geojson",),
    "codes": ("npz", "h5ad", "parquet"),
    "hits": ("csv", "parquet"),
    "table": ("csv", "parquet"),
    "pseudonyms": ("csv",),
}
"""The formats of each export; the first one is the default."""


@click.command()
@click.argument("what", type=click.Choice(list(FORMATS)))
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
@click.option("--format", "suffix", help="codes: npz, h5ad or parquet; hits and table: csv or parquet.")
@click.option("-k", type=click.IntRange(1, 1000), default=10, show_default=True, help="Number of hits per slide.")
@click.option("--vertical", is_flag=True, help="Hits within the site of each slide only.")
@click.option(
    "--fields",
    multiple=True,
    metavar="COLUMN",
    help="A column of the manifest to write as it is, to the table or h5ad, such as center (may be repeated).",
)
@click.option("--identified", is_flag=True, help="Write real ids and all columns, for use in the house.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@json_option
def command(
    what: str,
    slides: tuple[str, ...],
    folder: Path | None,
    name: str | None,
    output: Path,
    suffix: str | None,
    k: int,
    vertical: bool,
    fields: tuple[str, ...],
    identified: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Export the results of SLIDES (ids), or of all slides that have them, for other tools.

    features: one HDF5 file per slide, as TRIDENT writes them. patches: one GeoJSON file per slide, for QuPath. codes:
    one .npz file; as h5ad, an AnnData file with slides as rows, codes in obsm and hits in obsp and uns. hits: the
    nearest slides of other patients for every slide, a CSV that 'slideseek bench score' reads. table: one CSV file with
    the metadata of the slides and their state in every engine (or in --engine).

    Files are made for sharing: slides, patients and centres have pseudonyms, the same in all outputs of the archive;
    paths are left out, and columns that --fields does not list. --identified writes real ids and all columns.

    pseudonyms: one CSV file that says which slide and patient a pseudonym stands for. Keep that one in the house.
    """
    from dataclasses import asdict

    from slideseek.errors import UsageError
    from slideseek.indexing.live_index import open_engine
    from slideseek.plugins import needs_application
    from slideseek.searching.query_log import open_log
    from slideseek.searching.searcher import Mode

    with needs_application("reports", "an export"):
        from slideseek_apps.reports.sharing import Sharing
    from slideseek_apps.interchange.export_anndata import export_anndata
    from slideseek_apps.interchange.export_codes import export_codes
    from slideseek_apps.interchange.export_features import export_features
    from slideseek_apps.interchange.export_hits import export_hits
    from slideseek_apps.interchange.export_output import Destination, SlideChoice
    from slideseek_apps.interchange.export_patches import export_patches
    from slideseek_apps.interchange.export_pseudonyms import export_pseudonyms
    from slideseek_apps.interchange.export_table import export_table

    form = suffix or FORMATS[what][0]
    if form not in FORMATS[what]:
        raise UsageError(f"{what} cannot be written as {form!r}", f"--format is one of: {', '.join(FORMATS[what])}")
    mode: Mode = "vertical" if vertical else "horizontal"
    if fields and what != "table" and form != "h5ad":
        raise UsageError(f"{what} in {form} have no columns of the manifest", "leave --fields out")
    with open_archive(folder) as archive:
        choice = SlideChoice.of(archive, slides)
        destination = Destination(output, force, Sharing.of(archive, identified, fields))
        config = archive.config.engine(name)
        if what == "pseudonyms":
            summary = export_pseudonyms(archive, choice, destination)
        elif what == "table":
            summary = export_table(archive, name and config.name, choice, destination, form)
        elif what == "hits":
            summary = export_hits(archive, config.name, choice, destination, k, mode, form)
        else:
            engine = open_engine(archive, config, archive.registry())
            if what == "features":
                summary = export_features(archive, engine, choice, destination)
            elif what == "patches":
                summary = export_patches(archive, engine, choice, destination)
            elif form == "h5ad":
                summary = export_anndata(archive, engine, choice, destination, k, mode)
            else:
                summary = export_codes(archive, engine, choice, destination, form)
        named = [row.id for row in choice.rows] if choice.named else f"all {len(choice.rows)}"
        given = {"export": what, "format": form, "slides": named, "identified": identified, "fields": list(fields)}
        summary.notes += filter(None, [open_log(archive).note(given | {"output": str(output.absolute())})])
    if as_json:
        print_json({"what": what, **asdict(summary)})
        return EXIT_FAILED_SLIDES if summary.problems else 0
    for note in summary.notes:
        say(f"note    {note}")
    for problem in summary.problems:
        say_problem(problem.subject, problem.cause, problem.fix)
    click.echo(f"wrote {what} of {len(summary.slides)} slides to {output}, {len(summary.problems)} failed")
    return EXIT_FAILED_SLIDES if summary.problems else 0
