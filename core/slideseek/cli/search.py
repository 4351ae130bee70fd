"""`slideseek search`: find similar slides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slideseek.cli.hit_tables import print_answer, print_evidence
from slideseek.cli.options import archive_option, json_option, mag_option, mpp_option, open_archive, stated_mpp
from slideseek.cli.output import print_csv, print_json, say
from slideseek.searching.answer_json import CSV_HEADER, answer_data, csv_rows

if TYPE_CHECKING:
    from slideseek.searching.calibration import Calibration
    from slideseek.searching.evidence import Evidence
    from slideseek.searching.queries import Query
    from slideseek.searching.searcher import Answer, Mode, Searcher
    from slideseek.slides.area import Annotations, Region
    from slideseek.types import SlideRecord

EVIDENCE_SHOWN = 5
MAX_EVIDENCE = 1000


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
    "--exclude-centre",
    "--exclude-center",
    "exclude_center",
    is_flag=True,
    help="Leave out all slides of the query's centre, too: a scanner's colours are easily mistaken for likeness.",
)
@click.option(
    "--region",
    metavar="X,Y,W,H or GEOJSON",
    help="Ask with this part of QUERY only: a rectangle in level-0 pixels or '...um', or annotations from QuPath.",
)
@click.option("--annotation", default="", metavar="NAME", help="Of a GeoJSON region, take what has this name or class.")
@click.option("--patch", "as_patch", is_flag=True, help="QUERY is a patch image (with --mpp, its resolution counts).")
@click.option("--case", "as_case", is_flag=True, help="QUERY is a patient: ask with all of that patient's slides.")
@click.option("--site", default="", help="Site of a query file, for --vertical and conditioned encoders.")
@click.option("--patient", default="", help="Patient of a query file, to leave that patient's slides out.")
@click.option("--center", default="", help="Centre of a query file, for --exclude-centre.")
@mpp_option
@mag_option
@click.option(
    "--evidence",
    "top",
    is_flag=False,
    flag_value=str(EVIDENCE_SHOWN),
    metavar="[=N]",
    help=f"Show which patches made each hit similar, the N that say most (default {EVIDENCE_SHOWN}).",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Ask with slides of the archive in the same way, to see how often such an agreement is right.",
)
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
    exclude_center: bool,
    region: str | None,
    annotation: str,
    as_patch: bool,
    as_case: bool,
    site: str,
    patient: str,
    center: str,
    mpp: float | None,
    mag: float | None,
    top: str | None,
    calibrate: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Find the slides most similar to QUERY: the id of a slide in the archive, or a slide file.

    With --region a part of it is asked about, with --patch QUERY is a patch image, with --case a patient.
    """
    from dataclasses import replace

    from slideseek.errors import UsageError
    from slideseek.indexing.index_store import open_engine
    from slideseek.plugins import load_registry
    from slideseek.searching.replay import log_query
    from slideseek.searching.request import Request, query_kind
    from slideseek.searching.searcher import Searcher

    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other")
    kind = query_kind(region, as_patch, as_case)
    if annotation and region is None:
        raise UsageError("--annotation chooses among annotations of a GeoJSON file", "name the file with --region")
    if as_csv and (top is not None or calibrate):
        raise UsageError("--csv has a row a hit, without --evidence and --calibrate", "use --json, or leave out --csv")
    shown = _evidence_shown(top)
    part = _region(region, annotation) if region is not None else None
    with open_archive(folder) as archive:
        given = {"--site": site, "--patient": patient, "--center": center, "--mpp": mpp, "--mag": mag}
        if (row := archive.catalog.slides.get(query)) is not None:
            _refuse_for_stored(row.record, [option for option, value in given.items() if value], vertical)
        searcher = Searcher(archive, open_engine(archive, archive.config.engine(name), load_registry()))
        stated = stated_mpp(mpp, mag)
        if part is not None:
            made = searcher.ask.region(query, part, site, patient, stated, center)
        elif as_patch:
            made = searcher.ask.patch(Path(query), site, patient, stated, center)
        elif as_case:
            made = searcher.ask.case(query)
        else:
            made = searcher.query(query, site, patient, stated, center)
        unused = [option for option in ("--site", "--patient", "--center") if given[option]]
        if unused and archive.catalog.slides.get(made.record.id) is not None:
            note = f"not used: {', '.join(unused)}, since the archive knows the slide's own"
            made = replace(made, notes=(*made.notes, note))

        mode: Mode = "vertical" if vertical else "horizontal"

        def search(asked: Query, include: bool = False) -> Answer:
            return searcher.search(asked, count, mode, where, include, exclude_center)

        answer = search(made, include_same_patient)
        about = region or "", annotation, site, patient, center, stated
        request = Request(query, kind, *about, count, mode, where, include_same_patient, exclude_center)
        if note := log_query(searcher, request, made, answer, "search")[1]:
            answer = replace(answer, notes=(*answer.notes, note))
        evidence = _explain(searcher, made, answer) if shown else None
        calibration = _calibrate(searcher, search) if calibrate else None
    if as_json:
        print_json(answer_data(answer, evidence, shown, calibration))
    elif as_csv:
        print_csv(CSV_HEADER, csv_rows(answer))
    else:
        print_answer(answer, calibration)
        if evidence is not None:
            print_evidence(answer, evidence, shown)
    if not as_json:
        for note in answer.notes:
            say(f"note    {note}")


def _evidence_shown(text: str | None) -> int:
    """Return how many pairs or patches a hit are to be shown, 0 for no evidence."""
    from slideseek.errors import UsageError

    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_EVIDENCE:
        raise UsageError(
            f"--evidence={text}: a number from 1 to {MAX_EVIDENCE}",
            f"write --evidence={EVIDENCE_SHOWN}, or --evidence behind QUERY",
        )
    return int(text)


def _region(text: str, annotation: str) -> Region | Annotations:
    """Read what --region says: the name of a GeoJSON file, or a rectangle."""
    from slideseek.errors import UsageError
    from slideseek.slides.area import Annotations, Region

    path = Path(text)
    if path.suffix.lower() in (".geojson", ".json"):
        return Annotations.read(path, annotation)
    if annotation:
        raise UsageError("--annotation chooses among annotations of a GeoJSON file", "name the file with --region")
    return Region.parse(text)


def _explain(searcher: Searcher, query: Query, answer: Answer) -> dict[str, Evidence]:
    from slideseek.searching.evidence import Explainer

    explainer = Explainer(searcher)
    return {found.hit.slide_id: explainer.explain(query, found.hit.slide_id) for found in answer.found}


def _calibrate(searcher: Searcher, search: Callable[[Query], Answer]) -> dict[str, Calibration]:
    from slideseek.searching.calibration import calibrate

    return calibrate(searcher, search)


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
