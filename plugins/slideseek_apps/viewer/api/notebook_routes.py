"""Notebook routes: collections of slides with notes, annotations, and past searches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from slideseek.searching.query_log import LogEntry, open_log
from slideseek.searching.request import Request as SearchRequest
from slideseek_apps.viewer.api.services import Services, ServicesOf, user_of
from slideseek_apps.viewer.api.slide_routes import Key
from slideseek_apps.viewer.hide_paths import without_paths
from slideseek_apps.viewer.schemas import (
    AnnotationsIn,
    AnnotationsOut,
    CollectionIn,
    CollectionOut,
    HoldingOut,
    NoteIn,
    RecentOut,
    ShapeIn,
)

router = APIRouter(tags=["notebook"])

Number = Annotated[int, Path(ge=1, le=2**53, description="Number of a collection.")]


@router.get("/collections")
async def collections(services: ServicesOf) -> list[CollectionOut]:
    """List the collections of the archive."""
    return [CollectionOut(**asdict(one)) for one in await services.quick.run(services.notebook.collections)]


@router.post("/collections")
async def create(services: ServicesOf, asked: CollectionIn, http: Request) -> CollectionOut:
    """Make an empty collection."""
    return CollectionOut(**asdict(await services.quick.run(services.notebook.create, asked.name, user_of(http))))


@router.put("/collections/{number}")
async def rename(services: ServicesOf, number: Number, asked: CollectionIn) -> CollectionIn:
    """Give a collection another name."""
    await services.quick.run(services.notebook.rename, number, asked.name)
    return asked


@router.delete("/collections/{number}")
async def delete(services: ServicesOf, number: Number) -> dict[str, int]:
    """Delete a collection and its notes; the slides stay."""
    await services.quick.run(services.notebook.delete, number)
    return {"deleted": number}


@router.get("/slides/{key}/collections")
async def holding(services: ServicesOf, key: Key) -> HoldingOut:
    """Return the collections that a slide is in, with its notes."""
    return HoldingOut(notes=await services.quick.run(lambda: services.notebook.holding(_id(services, key))))


@router.put("/collections/{number}/slides/{key}")
async def put(services: ServicesOf, number: Number, key: Key, asked: NoteIn, http: Request) -> NoteIn:
    """Add a slide to a collection, or change its note."""
    who = user_of(http)
    await services.quick.run(lambda: services.notebook.put(number, _id(services, key), asked.note, who))
    return asked


@router.delete("/collections/{number}/slides/{key}")
async def drop(services: ServicesOf, number: Number, key: Key) -> dict[str, str]:
    """Take a slide out of a collection."""
    await services.quick.run(lambda: services.notebook.drop(number, _id(services, key)))
    return {"dropped": key}


@router.get("/slides/{key}/annotations")
async def slide_annotations(services: ServicesOf, key: Key) -> AnnotationsOut:
    """Return the annotations of a slide as GeoJSON."""
    revision, shapes = await services.quick.run(lambda: services.notebook.annotations(_id(services, key)))
    return AnnotationsOut(revision=revision, features=shapes)


@router.put("/slides/{key}/annotations")
async def annotate(services: ServicesOf, key: Key, asked: AnnotationsIn, http: Request) -> AnnotationsOut:
    """Replace the annotations of a slide."""
    shapes, who = [_feature(shape) for shape in asked.shapes], user_of(http)

    def work() -> int:
        return services.notebook.annotate(_id(services, key), asked.revision, shapes, who)

    return AnnotationsOut(revision=await services.quick.run(work), features=shapes)


@router.get("/searches")
async def searches(
    services: ServicesOf, http: Request, count: Annotated[int, Query(ge=1, le=100)] = 20
) -> list[RecentOut]:
    """List the latest searches in the archive's log, newest first; behind a proxy, those of the user."""
    who = user_of(http)

    def work() -> list[RecentOut]:
        found = open_log(services.searching.archive).last(10 * count if who else count)
        mine = [entry for entry in reversed(found) if not who or entry.who == who]
        return [_recent(services, entry) for entry in mine[:count]]

    return await services.quick.run(work)


def _id(services: Services, key: str) -> str:
    return services.fresh_entry(key).record.id


def _feature(shape: ShapeIn) -> dict[str, Any]:
    """Return an annotation as QuPath reads it."""
    ring = [list(corner) for corner in (*shape.corners, shape.corners[0])]
    return {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {"objectType": "annotation", "name": shape.name, "slideseek": shape.kind},
    }


def _recent(services: Services, entry: LogEntry) -> RecentOut:
    request = SearchRequest.unpack(entry.request)
    directory = services.searching.directory
    return RecentOut(
        number=entry.number,
        asked=entry.asked,
        engine=entry.engine,
        title=without_paths(str(request), request.text if "/" in request.text or "\\" in request.text else ""),
        settings=without_paths(f"{request.mode}, {request.settings()}"),
        hits=[str(one) for one, _ in entry.answer["hits"][:3] if directory.of_id(str(one)) is not None],
        address=_address(services, request, entry.engine),
    )


def _address(services: Services, request: SearchRequest, engine: str) -> dict[str, str] | None:
    """Return the state of the page that repeats a request; None if the page has no way to say it."""
    directory = services.searching.directory
    if request.kind == "patch" or request.annotation or any(mark in request.region for mark in (".json", ".geojson")):
        return None
    if request.kind == "case":
        found = next((one for one in directory.entries if one.record.patient == request.text), None)
    else:
        found = directory.of_id(request.text)
    marked = [directory.of_id(one) for one in (*request.relevant, *request.rejected)]
    if found is None or len(request.where) > 1 or request.options or None in marked:
        return None
    keys = [one.key for one in marked if one is not None]
    good, bad = ",".join(keys[: len(request.relevant)]), ",".join(keys[len(request.relevant) :])
    said = {
        "slide": found.key,
        "engine": engine,
        "k": str(request.k),
        "mode": request.mode,
        "case": "1" if request.kind == "case" else "",
        "region": request.region,
        "where": request.where[0] if request.where else "",
        "same": "1" if request.include_same_patient else "",
        "apart": "1" if request.exclude_center else "",
        "stains": "1" if request.any_stain else "",
        "good": good,
        "bad": bad,
        "more": good,
        "less": bad,
    }
    return {name: value for name, value in said.items() if value}
