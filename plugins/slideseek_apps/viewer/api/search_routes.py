"""Search routes: query with a slide, a region, an uploaded patch or text, and explain a hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from slideseek.errors import UsageError
from slideseek.searching.answer_json import answer_json
from slideseek.searching.evidence import Evidence
from slideseek.searching.request import Request as SearchRequest
from slideseek.searching.searcher import Answer
from slideseek.types import SlideRecord
from slideseek_apps.viewer.api.services import NotThereError, Services, ServicesOf, slide_out, user_of
from slideseek_apps.viewer.api.slide_routes import selection_of
from slideseek_apps.viewer.hide_paths import without_paths
from slideseek_apps.viewer.opaque_slide_keys import slide_key
from slideseek_apps.viewer.schemas import (
    AmongIn,
    AnswerOut,
    CalibrationOut,
    CaseQuery,
    EvidenceOut,
    ExplainIn,
    PairOut,
    PatchKey,
    PatchOut,
    PatchQuery,
    PlaceOut,
    PlacesIn,
    QueryIn,
    ReadinessOut,
    RegionQuery,
    SearchIn,
    SideOut,
    TextQuery,
)

router = APIRouter(tags=["search"])

_BYTES = {"schema": {"type": "string", "format": "binary"}}
UPLOAD = {"requestBody": {"required": True, "content": {f"image/{kind}": _BYTES for kind in ("png", "jpeg", "webp")}}}


@router.post("/search")
async def search(services: ServicesOf, asked: SearchIn, http: Request) -> AnswerOut:
    """Find the slides most similar to a slide, a region, a patch or text."""

    def work() -> AnswerOut:
        request = request_of(services, asked.query, asked)
        return _answer(services, services.searching.search(asked.engine, request, user_of(http)).answer)

    stored = asked.query.kind == "slide" and services.searching.loaded.get(asked.query.slide) is not None
    return await (services.quick if stored else services.slow).run(work)


@router.post("/places")
async def places(services: ServicesOf, asked: PlacesIn) -> list[PlaceOut]:
    """Return where hits match a region or a patch best; some hits may have no place."""

    def work() -> list[PlaceOut]:
        request = replace(request_of(services, asked.query), options=tuple(asked.options))
        keys = {services.fresh_entry(key).record.id: key for key in asked.hits}
        found = services.searching.places(asked.engine, request, list(keys))
        return [PlaceOut(slide=keys[slide_id], x=x, y=y, side=side) for slide_id, (x, y, side) in found.items()]

    return await services.slow.run(work)


@router.post("/calibration")
async def calibration(services: ServicesOf, asked: SearchIn) -> dict[str, CalibrationOut]:
    """Return how often votes of a search are right, measured with slides of the archive searched in the same way."""

    def work() -> dict[str, CalibrationOut]:
        request = request_of(services, asked.query, asked)
        votes = services.searching.run(asked.engine, request).answer.votes
        made = services.searching.calibration(asked.engine, request)
        shown = {}
        for name, vote in votes.items():
            right, searched = made[name].at(vote.confidence)
            every = list(made[name].shares.values())
            shown[name] = CalibrationOut(
                right=right,
                searched=searched,
                all_right=sum(one for one, _ in every),
                all_searched=sum(count for _, count in every),
            )
        return shown

    return await services.slow.run(work)


@router.get("/readiness")
async def readiness(services: ServicesOf) -> ReadinessOut:
    """Return how many engines are ready for regions and patches; they are loaded in the background at the start."""
    ready, engines = services.searching.prepared
    return ReadinessOut(ready=ready, engines=engines)


@router.post("/explain")
async def explain(services: ServicesOf, asked: ExplainIn) -> EvidenceOut:
    """Return which patches of the query and of a hit made the match."""

    def work() -> EvidenceOut:
        hit = services.fresh_entry(asked.hit)
        request = replace(request_of(services, asked.query), options=tuple(asked.options))
        evidence = services.searching.explain(asked.engine, request, hit.record.id)
        return _evidence(evidence, services.searching.unit(asked.engine, request.options))

    return await services.slow.run(work)


@router.post("/patches", openapi_extra=UPLOAD)
async def upload(services: ServicesOf, request: Request) -> PatchOut:
    """Upload a patch image (PNG, JPEG or WebP) to search with."""
    kept = await services.pixels.run(services.uploads.add, await request.body())
    return PatchOut(patch=kept.key, width=kept.width, height=kept.height)


@router.get(
    "/patches/{patch}",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def patch_preview(services: ServicesOf, patch: Annotated[PatchKey, Path()]) -> Response:
    """Return an uploaded patch as a small JPEG."""
    kept = services.uploads.get(patch)
    if kept is None:
        raise _no_patch()
    jpeg = await services.pixels.run(services.uploads.preview, kept)
    return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})


def request_of(services: Services, query: QueryIn, asked: SearchIn | None = None) -> SearchRequest:
    """Turn a request body into a search request. It can only name slides of the archive and stored uploads."""
    if isinstance(query, PatchQuery):
        kept = services.uploads.get(query.patch)
        if kept is None:
            raise _no_patch()
        known: dict[str, Any] = query.model_dump(include={"site", "patient", "center", "mpp"})
        request = SearchRequest(text=str(kept.path), kind="patch", **known)
    elif isinstance(query, TextQuery):
        request = SearchRequest(**query.model_dump())
    elif isinstance(query, RegionQuery):
        region = f"{query.x},{query.y},{query.width},{query.height}"
        request = SearchRequest(text=services.fresh_entry(query.slide).record.id, kind="region", region=region)
    elif isinstance(query, CaseQuery):
        patient = services.fresh_entry(query.slide).record.patient
        if not patient:
            raise UsageError("the patient of this slide is not known", "search with the slide itself")
        request = SearchRequest(text=patient, kind="case")
    else:
        request = SearchRequest(text=services.fresh_entry(query.slide).record.id)
    if asked is None:
        return request
    return replace(
        request,
        k=asked.k,
        mode=asked.mode,
        where=(*asked.where, *(conditions(services, asked.among) if asked.among else ())),
        include_same_patient=asked.include_same_patient,
        exclude_center=asked.exclude_center,
        any_stain=asked.any_stain,
        options=tuple(asked.options),
        relevant=_ids(services, asked.relevant),
        rejected=_ids(services, asked.rejected),
    )


def conditions(services: Services, among: AmongIn) -> list[str]:
    """Return a filter of the list of slides as conditions of a search."""
    directory = services.searching.directory
    return directory.conditions(selection_of(services, among.text, among.facet, among.range, among.collection))


def _ids(services: Services, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(services.fresh_entry(key).record.id for key in keys)


def _no_patch() -> NotThereError:
    return NotThereError("this patch is no longer stored", "upload it again")


def _answer(services: Services, answer: Answer) -> AnswerOut:
    """Return an answer in the shape of `--json`, with keys instead of paths."""
    directory = services.searching.directory

    def slide(record: SlideRecord) -> dict[str, Any]:
        return slide_out(record, directory.of_id(record.id)).model_dump()

    # A slide may have been removed between the search and now.
    there = [one for one in answer.found if directory.of_id(one.hit.slide_id) is not None]
    notes = tuple(without_paths(note, answer.query.path) for note in answer.notes)
    return AnswerOut.model_validate(answer_json(replace(answer, found=there, notes=notes), slide=slide))


def _evidence(evidence: Evidence, unit: str) -> EvidenceOut:
    sides = [
        SideOut(
            boxes=[(int(x), int(y), float(side)) for (x, y), side in zip(squares.xy, squares.side)],
            parts=[float(part) for part in parts],
            slides=[slide_key(slide_id) for slide_id in squares.slides],
        )
        if squares.side.any()
        else SideOut(boxes=[], parts=[], slides=[])  # text
        for squares, parts in ((evidence.query, evidence.parts), (evidence.hit, evidence.hit_parts))
    ]
    return EvidenceOut(
        kind=evidence.kind,
        value=evidence.value,
        unit=unit if evidence.kind == "pairs" else "",
        query=sides[0],
        hit=sides[1],
        pairs=[PairOut(query=one.query, hit=one.hit, distance=one.distance) for one in evidence.pairs],
    )
