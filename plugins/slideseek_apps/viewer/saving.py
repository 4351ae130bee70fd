"""Files that people save from the viewer: reports, tables of hits and slides, evidence for QuPath."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from slideseek.cli.output import csv_text
from slideseek.errors import SlideseekError
from slideseek.plugins import needs_application
from slideseek.searching.answer_json import CSV_HEADER, csv_rows
from slideseek.searching.request import Request
from slideseek.types import SlideRecord

if TYPE_CHECKING:
    from slideseek_apps.reports.sharing import Sharing
    from slideseek_apps.viewer.search_service import SearchService

NAMED = ("patient", "site", "label", "center")


def report_page(service: SearchService, engine: str, request: Request, identified: bool) -> str:
    """Return a search with pictures and evidence as one HTML page."""
    with needs_application("reports", "a report"):
        from slideseek_apps.reports.query_pages import QueryPages
        from slideseek_apps.reports.report_page import render_report
    sharing = _sharing(service, identified)
    result = service.report(engine, request)
    pages = QueryPages(service.archive, sharing=sharing, opened=service.opened)
    title = f"Slides like {sharing.slide(result.answer.query.id)}"
    return render_report(pages.page([pages.complete(result)], title))


def hits_csv(service: SearchService, engine: str, request: Request, identified: bool) -> str:
    """Return the hits of a search as CSV."""
    answer = service.report(engine, request).answer
    return csv_text(CSV_HEADER, csv_rows(_sharing(service, identified).answer(answer)))


def slides_csv(
    service: SearchService, records: Iterable[tuple[SlideRecord, str]], identified: bool, noted: bool = False
) -> str:
    """Return slides with notes as CSV. noted: with a column of notes. Free columns are only in an identified table."""
    sharing = _sharing(service, identified)
    fields = service.directory.fields if identified else ()
    header = ["slide_id", *NAMED, *fields, *(["note"] if noted else [])]
    rows = []
    for record, note in records:
        shown = sharing.record(record)
        named = [getattr(shown, name) for name in NAMED]
        rows.append([shown.id, *named, *(shown.columns.get(name, "") for name in fields), *([note] if noted else [])])
    return csv_text(header, rows)


def evidence_geojson(service: SearchService, engine: str, request: Request, hit: SlideRecord, side: str) -> str:
    """Return the patches of one slide of a match as GeoJSON for QuPath."""
    with needs_application("reports", "a GeoJSON file of evidence"):
        from slideseek_apps.reports.evidence_geojson import side_geojson
        from slideseek_apps.reports.explained_match import explained
    query, evidence = service.explained(engine, request, hit.id)
    found = explained(service.archive, query, hit, evidence)
    chosen = found.query if side == "query" else found.hit
    # Of a case, the slide with the strongest patch: a file for QuPath belongs to one picture.
    return json.dumps(side_geojson(evidence, chosen, chosen.slide_ids[0]), separators=(",", ":"))


def _sharing(service: SearchService, identified: bool) -> Sharing:
    with needs_application("reports", "a file of slides"):
        from slideseek_apps.reports.sharing import KEY_NAME, Sharing
    if not identified and not service.writable and not (service.archive.root / KEY_NAME).exists():
        raise SlideseekError(
            "the archive has no key for pseudonyms yet, and the server was started with --read-only",
            "save with real ids, or run 'slideseek report' once",
        )
    return Sharing.of(service.archive, identified)
