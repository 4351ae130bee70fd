"""`slideseek search`: find similar slides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slideseek.cli.options import archive_option, json_option, mag_option, mpp_option, open_archive, stated_mpp
from slideseek.cli.output import print_csv, print_json, print_table, say

if TYPE_CHECKING:
    from slideseek.search import Answer
    from slideseek.types import SlideRecord


@click.command()
@click.argument("query")
@archive_option
@click.option("-k", "count", default=5, show_default=True, help="How many hits.")
@click.option("--engine", "name", help="The engine to search with (default: the first one configured).")
@click.option(
    "--vertical/--horizontal",
    "vertical",
    default=False,
    help="Look among slides of the query's site only, or in the whole archive (default).",
)
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Only slides that fit, such as site=lung, age>=60, 'label in a,b' (may be repeated: all must hold).",
)
@click.option("--include-same-patient", is_flag=True, help="Do not leave out the query's own patient and slide.")
@click.option(
    "--region", metavar="X,Y,W,H", help="Ask with this rectangle of QUERY only, in level-0 pixels or '...um'."
)
@click.option("--patch", "as_patch", is_flag=True, help="QUERY is a patch image, taken as it is.")
@click.option("--case", "as_case", is_flag=True, help="QUERY is a patient: ask with all of that patient's slides.")
@click.option("--site", default="", help="Site of a query file, for --vertical and conditioned encoders.")
@click.option("--patient", default="", help="Patient of a query file, to leave that patient's slides out.")
@mpp_option
@mag_option
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
def command(
    query: str,
    folder: Path | None,
    count: int,
    name: str | None,
    vertical: bool,
    where: tuple[str, ...],
    include_same_patient: bool,
    region: str | None,
    as_patch: bool,
    as_case: bool,
    site: str,
    patient: str,
    mpp: float | None,
    mag: float | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Find the slides most similar to QUERY: the id of a slide in the archive, or a slide file.

    With --region a part of it is asked about, with --patch QUERY is a patch image, with --case a patient.
    """
    from dataclasses import replace

    from slideseek.building.index_store import open_engine
    from slideseek.errors import UsageError
    from slideseek.plugins import load_registry
    from slideseek.queries import Region
    from slideseek.search import Searcher

    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other")
    if (region is not None) + as_patch + as_case > 1:
        raise UsageError("--region, --patch and --case exclude each other")
    with open_archive(folder) as archive:
        given = {"--site": site, "--patient": patient, "--mpp": mpp, "--mag": mag}
        if (row := archive.catalog.slides.get(query)) is not None:
            _refuse_for_stored(row.record, [option for option, value in given.items() if value], vertical)
        searcher = Searcher(archive, open_engine(archive, archive.config.engine(name), load_registry()))
        if region is not None:
            made = searcher.ask.region(query, Region.parse(region), site, patient, stated_mpp(mpp, mag))
        elif as_patch:
            made = searcher.ask.patch(Path(query), site, patient)
        elif as_case:
            made = searcher.ask.case(query)
        else:
            made = searcher.query(query, site, patient, stated_mpp(mpp, mag))
        if (site or patient) and archive.catalog.slides.get(made.record.id) is not None:
            note = "--site and --patient were not used: the archive knows the slide's own"
            made = replace(made, notes=(*made.notes, note))
        answer = searcher.search(made, count, "vertical" if vertical else "horizontal", where, include_same_patient)
    if as_json:
        print_json(answer_data(answer))
    elif as_csv:
        header = ("rank", "slide_id", "distance", "patient", "site", "label", "center")
        print_csv(header, [[row[name] for name in header] for row in answer_data(answer)["hits"]])
    else:
        print_answer(answer)
    if not as_json:
        for note in answer.notes:
            say(f"note    {note}")


def _refuse_for_stored(record: SlideRecord, given: list[str], vertical: bool) -> None:
    """Refuse what a search with a slide of the archive cannot use: what is known of it is in the catalogue."""
    from slideseek.errors import UsageError

    if given:
        raise UsageError(
            f"{' and '.join(given)} is for a query file, and {record.id!r} is a slide of the archive",
            "leave it out; to change what is known of the slide, add it again with a manifest",
        )
    if vertical and not record.site:
        raise UsageError(
            f"a vertical search needs the site of {record.id!r}, which is unknown",
            "add the slide again with a manifest that has a primary_site column, or search with --horizontal",
        )


def answer_data(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain data."""
    return {
        "query": {"slide_id": answer.query.id, "site": answer.query.site, "label": answer.query.label},
        "engine": answer.engine,
        "mode": answer.mode,
        "candidates": answer.candidates,
        "milliseconds": round(answer.milliseconds, 3),
        "votes": {name: {"value": value, "hits": hits} for name, (value, hits) in answer.votes.items()},
        "hits": [
            {
                "rank": f.rank,
                "slide_id": f.hit.slide_id,
                "distance": f.hit.distance,
                "patient": f.record.patient,
                "site": f.record.site,
                "label": f.record.label,
                "center": f.record.center,
                "path": f.record.path,
            }
            for f in answer.found
        ],
        "notes": list(answer.notes),
    }


def print_answer(answer: Answer) -> None:
    """Print an answer for people."""
    about = ", ".join(part for part in (answer.query.site, answer.query.label) if part)
    scope = f"slides of {answer.query.site}" if answer.mode == "vertical" else "the archive"
    title = f"{answer.query.id}{f' ({about})' if about else ''} - nearest in {scope}, engine {answer.engine}"
    rows = [
        [str(f.rank), f.hit.slide_id, f"{f.hit.distance:.6g}", f.record.site, f.record.label, f.record.patient]
        for f in answer.found
    ]
    click.echo(title)
    print_table(("rank", "slide", "distance", "site", "diagnosis", "patient"), rows, right=(0, 2))
    if not rows:
        click.echo("no slide passes the filters" if not answer.candidates else "no hits")
    for name, (value, hits) in answer.votes.items():
        click.echo(f"vote for {'diagnosis' if name == 'label' else name}: {value} ({hits} of {len(rows)})")
    click.echo(f"{answer.candidates} candidates searched in {answer.milliseconds:.1f} ms")
