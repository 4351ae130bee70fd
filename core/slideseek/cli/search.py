"""`slideseek search`: find similar slides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from slideseek.cli.options import archive_option, json_option, mag_option, mpp_option, run_application, stated_mpp
from slideseek.cli.output import csv_text, print_answer, print_json, say
from slideseek.searching.answer_json import CSV_HEADER, answer_json, csv_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slideseek.searching.calibration import Calibration
    from slideseek.searching.evidence import Evidence
    from slideseek.searching.request import Request
    from slideseek.searching.searcher import Answer, Searcher


EVIDENCE_SHOWN = 5
MAX_EVIDENCE = 1000


@click.command()
@click.argument("query", required=False, default="")
@archive_option
@click.option("-k", "count", default=5, show_default=True, help="Number of hits.")
@click.option("--engine", "name", help="The engine to search with (default: the first one configured).")
@click.option(
    "--vertical/--horizontal",
    "vertical",
    default=False,
    help="Search only slides of the query's site, or the whole archive (default).",
)
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Only slides that match, such as site=lung, age>=60, 'label in a,b' (may be repeated: all must match).",
)
@click.option("--include-same-patient", is_flag=True, help="Do not exclude the query's own patient and slide.")
@click.option(
    "--exclude-centre",
    "--exclude-center",
    "exclude_center",
    is_flag=True,
    help="Also exclude all slides from the query's centre: its scanner's colours alone can make them look similar.",
)
@click.option("--any-stain", is_flag=True, help="Also find slides of another stain than the query's.")
@click.option(
    "--region",
    metavar="X,Y,W,H or GEOJSON",
    help="Query with only this part of QUERY: a rectangle in level-0 pixels or '...um', or annotations from QuPath.",
)
@click.option(
    "--annotation", default="", metavar="NAME", help="Use only the GeoJSON annotations with this name or class."
)
@click.option("--patch", "as_patch", is_flag=True, help="QUERY is a patch image (with --mpp, its resolution is used).")
@click.option("--case", "as_case", is_flag=True, help="QUERY is a patient: query with all of that patient's slides.")
@click.option("--text", "as_text", is_flag=True, help="QUERY is a description in words, for engines that read text.")
@click.option("--site", default="", help="Site of a query file, for --vertical and conditioned encoders.")
@click.option("--patient", default="", help="Patient of a query file, to exclude that patient's slides.")
@click.option("--center", default="", help="Centre of a query file, for --exclude-centre.")
@mpp_option
@mag_option
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the index or the reranker for this search only, such as depth=200 (may be repeated).",
)
@click.option(
    "--evidence",
    "top",
    is_flag=False,
    flag_value=str(EVIDENCE_SHOWN),
    metavar="[=N]",
    help=f"Show the N patches that contribute most to each hit (default {EVIDENCE_SHOWN}).",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Run the same search with slides of the archive and report how often such a vote was right.",
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option(
    "--queries",
    "queries",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run many searches: each line of FILE (- for standard input) is a slide id, a file, or a JSON object such as"
    ' {"text": "S-001", "k": 3}. Prints one JSON object per line.',
)
def command(
    query: str,
    folder: Path | None,
    count: int,
    name: str | None,
    vertical: bool,
    where: tuple[str, ...],
    include_same_patient: bool,
    exclude_center: bool,
    any_stain: bool,
    region: str | None,
    annotation: str,
    as_patch: bool,
    as_case: bool,
    as_text: bool,
    site: str,
    patient: str,
    center: str,
    mpp: float | None,
    mag: float | None,
    options: tuple[str, ...],
    top: str | None,
    calibrate: bool,
    as_json: bool,
    as_csv: bool,
    queries: Path | None,
) -> int:
    """Find the slides most similar to QUERY: the id of a slide in the archive, or a slide file.

    With --region only a part of it is the query; with --patch QUERY is a patch image; with --case, a patient;
    with --text, words. With --queries there are many, and the other options apply to those that do not state their own.
    """
    from slideseek.api import open_archive
    from slideseek.errors import UsageError
    from slideseek.searching.request import Request, query_kind

    if (not query) == (queries is None):
        cause = "QUERY and --queries cannot be used together" if query else "nothing to search for"
        raise UsageError(cause, "give a slide id, a file or, with --text, words, or pass --queries FILE")
    if queries is not None and (as_csv or top is not None or calibrate):
        raise UsageError("--queries prints one JSON object per line", "omit --csv, --evidence and --calibrate")
    if as_text and calibrate:
        raise UsageError("--calibrate searches with slides, which says nothing about text", "omit --calibrate")
    if as_json and as_csv:
        raise UsageError("--json and --csv cannot be used together")
    if as_csv and (top is not None or calibrate):
        fix = "use --json, or omit --csv"
        raise UsageError("--csv cannot hold the results of --evidence or --calibrate", fix)
    shown = _evidence_shown(top)
    request = Request(
        text=query,
        kind=query_kind(region, as_patch, as_case, as_text),
        region=region or "",
        annotation=annotation,
        site=site,
        patient=patient,
        center=center,
        mpp=mpp if mag is None else stated_mpp(mpp, mag),
        k=count,
        mode="vertical" if vertical else "horizontal",
        where=where,
        include_same_patient=include_same_patient,
        exclude_center=exclude_center,
        any_stain=any_stain,
        options=options,
    )
    if queries is not None:
        return run_application("queries", "--queries", file=queries, folder=folder, name=name, like=request)
    with open_archive(folder) as archive:
        result = archive.run(request, engine=name, source="search")
        answer = result.answer
        evidence = {one.hit.slide_id: archive.explain(result, one.hit.slide_id) for one in result} if shown else None
        calibration = _calibrate(archive.searcher(name), request) if calibrate else None
    if as_json:
        print_json(answer_json(answer, evidence, shown, calibration))
    elif as_csv:
        click.echo(csv_text(CSV_HEADER, csv_rows(answer)), nl=False)
    else:
        print_answer(answer, calibration)
        if evidence is not None:
            _print_evidence(answer, evidence, shown)
    if not as_json:
        for note in answer.notes:
            say(f"note    {note}")
    return 0


def _evidence_shown(text: str | None) -> int:
    """Return how many pairs or patches to show per hit, 0 for no evidence."""
    from slideseek.errors import UsageError

    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_EVIDENCE:
        raise UsageError(
            f"--evidence={text}: must be a number from 1 to {MAX_EVIDENCE}",
            f"write --evidence={EVIDENCE_SHOWN}, or put --evidence after QUERY",
        )
    return int(text)


def _calibrate(searcher: Searcher, request: Request) -> dict[str, Calibration]:
    from slideseek.searching.calibration import calibrate

    return calibrate(searcher, request)


def _print_evidence(answer: Answer, evidence: Mapping[str, Evidence], count: int) -> None:
    from slideseek.cli.evidence_table import print_evidence

    for found in answer.found:
        click.echo(f"hit {found.rank}, {found.hit.slide_id}")
        print_evidence(evidence[found.hit.slide_id], answer.query.id, found.hit.slide_id, count)
