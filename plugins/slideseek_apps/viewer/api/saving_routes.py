"""Saving routes: a search as a report, a table or GeoJSON; the list of slides as a table."""

from __future__ import annotations

from typing import Any, TypeAlias

from fastapi import APIRouter, Response

from slideseek_apps.viewer import saving
from slideseek_apps.viewer.api.search_routes import request_of
from slideseek_apps.viewer.api.services import ServicesOf
from slideseek_apps.viewer.api.slide_routes import InCollection, Picks, Ranges, Sort, Text, selection_of
from slideseek_apps.viewer.schemas import GeoJsonIn, SaveIn

router = APIRouter(tags=["saving"])

Responses: TypeAlias = dict[int | str, dict[str, Any]]


def _file(kind: str) -> Responses:
    return {200: {"content": {kind: {"schema": {"type": "string"}}}}}


HTML, CSV, GEOJSON = "text/html", "text/csv", "application/geo+json"


@router.post("/report", response_class=Response, responses=_file(HTML))
async def report(services: ServicesOf, asked: SaveIn) -> Response:
    """Return a search as one HTML page, with pictures and evidence, to be sent or printed."""

    def work() -> str:
        request = request_of(services, asked.query, asked)
        return saving.report_page(services.searching, asked.engine, request, asked.identified)

    return _download(await services.slow.run(work), HTML, "report.html")


@router.post("/hits", response_class=Response, responses=_file(CSV))
async def hits(services: ServicesOf, asked: SaveIn) -> Response:
    """Return the hits of a search as CSV."""

    def work() -> str:
        request = request_of(services, asked.query, asked)
        return saving.hits_csv(services.searching, asked.engine, request, asked.identified)

    return _download(await services.slow.run(work), CSV, "hits.csv")


@router.post("/geojson", response_class=Response, responses=_file(GEOJSON))
async def geojson(services: ServicesOf, asked: GeoJsonIn) -> Response:
    """Return the patches of the query or the hit of a match as GeoJSON for QuPath."""

    def work() -> str:
        request = request_of(services, asked.query)
        hit = services.fresh_entry(asked.hit).record
        return saving.evidence_geojson(services.searching, asked.engine, request, hit, asked.side)

    return _download(await services.slow.run(work), GEOJSON, f"{asked.side}.geojson")


@router.get("/table", response_class=Response, responses=_file(CSV))
async def table(
    services: ServicesOf,
    text: Text = "",
    facet: Picks = [],  # noqa: B006 - FastAPI copies defaults
    range: Ranges = [],  # noqa: A002, B006
    collection: InCollection = None,
    sort: Sort = "id",
    falling: bool = False,
    identified: bool = False,
) -> Response:
    """Return the slides that pass the filters as CSV; of a collection, with their notes."""

    def work() -> str:
        chosen = selection_of(services, text, facet, range, collection)
        _, found = services.searching.directory.page(chosen, sort, falling=falling)
        notes = {one.slide_id: one.note for one in services.notebook.slides(collection)} if collection else {}
        records = [(entry.record, notes.get(entry.record.id, "")) for entry in found]
        return saving.slides_csv(services.searching, records, identified, noted=bool(collection))

    return _download(await services.quick.run(work), CSV, "slides.csv")


def _download(text: str, kind: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text.encode("utf-8", "backslashreplace"), media_type=kind, headers=headers)
