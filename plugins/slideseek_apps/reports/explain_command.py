"""`slideseek explain`: show which patches made a match."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option, json_option, mag_option, mpp_option, stated_mpp
from slideseek.cli.output import print_json, say


@click.command()
@click.argument("query")
@click.argument("hit")
@archive_option
@click.option("--engine", "name", help="The engine to explain (default: the first one configured).")
@click.option(
    "-n",
    "--rows",
    "count",
    default=12,
    show_default=True,
    type=click.IntRange(1),
    help="Number of pairs or patches to show.",
)
@click.option("--region", metavar="X,Y,W,H or GEOJSON", help="The region of QUERY to explain, as in 'search'.")
@click.option(
    "--annotation",
    default="",
    metavar="NAME",
    help="Use only the annotations of a GeoJSON region with this name or class.",
)
@click.option("--patch", "as_patch", is_flag=True, help="QUERY is a patch image.")
@click.option("--case", "as_case", is_flag=True, help="QUERY is a patient.")
@click.option("--text", "as_text", is_flag=True, help="QUERY is a description in words.")
@click.option("--site", default="", help="Site of a query file, for conditioned encoders.")
@mpp_option
@mag_option
@click.option(
    "--set", "options", multiple=True, metavar="NAME=VALUE", help="An option that the search was given, as in 'search'."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the heat maps and the matching patches to this file: .png, .tif, .svg or .pdf.",
)
@click.option(
    "--heatmap", type=click.Path(path_type=Path), help="Write larger heat maps of both slides to this file, as for -o."
)
@click.option(
    "--dpi",
    default=300,
    show_default=True,
    type=click.IntRange(72, 1200),
    help="Resolution of pictures. A panel is 7 inches wide, heat maps alone are 10.",
)
@click.option(
    "--geojson",
    type=click.Path(path_type=Path),
    help="Write GeoJSON for QuPath: NAME.geojson gives NAME.query.geojson and NAME.hit.geojson.",
)
@json_option
def command(
    query: str,
    hit: str,
    folder: Path | None,
    name: str | None,
    count: int,
    region: str | None,
    annotation: str,
    as_patch: bool,
    as_case: bool,
    as_text: bool,
    site: str,
    mpp: float | None,
    mag: float | None,
    options: tuple[str, ...],
    output: Path | None,
    heatmap: Path | None,
    dpi: int,
    geojson: Path | None,
    as_json: bool,
) -> None:
    """Show which patches made HIT, a slide of the archive, match QUERY, a slide or file.

    Codes that are sets of patches are explained by pairs: each patch of the query and the most similar patch of the
    hit. Other codes are explained by the contribution of each patch to the similarity, which may be negative.
    """
    from slideseek.api import open_archive
    from slideseek.cli.evidence_table import print_evidence
    from slideseek.errors import SlideError, UsageError
    from slideseek.searching.answer_json import evidence_json
    from slideseek.searching.evidence import Explainer
    from slideseek.searching.request import Request, query_kind
    from slideseek_apps.reports.evidence_geojson import write_geojson
    from slideseek_apps.reports.evidence_pictures import evidence_panel, heat_map
    from slideseek_apps.reports.explained_match import explained
    from slideseek_apps.reports.picture_files import require_format, save_picture

    for path in filter(None, (output, heatmap)):
        require_format(path)
    kind = query_kind(region, as_patch, as_case, as_text)
    request = Request(
        text=query, kind=kind, region=region or "", annotation=annotation, site=site, mpp=stated_mpp(mpp, mag)
    )
    with open_archive(folder) as opened:
        archive, searcher = opened.archive, opened.searcher(name)
        made = request.query(searcher)
        evidence = Explainer(searcher).explain(made, hit, options)
        row = archive.catalog.slides.get(hit)
        if row is None:
            raise UsageError(f"{hit!r} is not a slide of this archive", "'slideseek status' lists the slides")
        found = explained(archive, made, row.record, evidence)
        notes = [*made.notes]
        try:
            found.require_same_pictures()
        except SlideError as error:
            if output or heatmap or geojson:
                raise
            notes.append(f"{error}; the table is about its former content")
        wrote: list[Path] = []
        if output is not None:
            save_picture(evidence_panel(found, searcher.engine.name, count, dpi), output)
            wrote.append(output)
        if heatmap is not None:
            save_picture(heat_map(found, searcher.engine.name, dpi), heatmap)
            wrote.append(heatmap)
        if geojson is not None:
            wrote += write_geojson(found, geojson)
    if as_json:
        shown = {"query_id": made.record.id, "hit_id": hit, "engine": searcher.engine.name}
        print_json({**shown, "evidence": evidence_json(evidence), "wrote": [str(path) for path in wrote]})
    else:
        print_evidence(evidence, made.record.id, hit, count)
        for path in wrote:
            click.echo(f"wrote {path}")
    for note in notes:
        say(f"note    {note}")
