"""Search routes: query with a slide, a region or an uploaded patch, and explain a hit."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from slideseek.searching.answer_json import answer_json
from slideseek.searching.evidence import Evidence
from slideseek.searching.request import Request as SearchRequest
from slideseek.searching.searcher import Answer
from slideseek.types import SlideRecord
from slideseek_apps.viewer.api.services import NotThereError, Services, ServicesOf, slide_out
from slideseek_apps.viewer.hide_paths import without_paths
from slideseek_apps.viewer.schemas import (
    AnswerOut,
    EvidenceOut,
    ExplainIn,
    PairOut,
    PatchKey,
    PatchOut,
    PatchQuery,
    QueryIn,
    RegionQuery,
    SearchIn,
    SideOut,
)

router = APIRouter(tags=["search"])

_BYTES = {"schema": {"type": "string", "format": "binary"}}
UPLOAD = {"requestBody": {"required": True, "content": {f"image/{kind}": _BYTES for kind in ("png", "jpeg", "webp")}}}


@router.post("/search")
async def search(services: ServicesOf, asked: SearchIn, http: Request) -> AnswerOut:
    """Find the slides most similar to a slide, a region or a patch."""

    def work() -> AnswerOut:
        request = _request(services, asked.query, asked)
        return _answer(services, services.searching.search(asked.engine, request, getattr(http.state, "user", "")))

    return await (services.quick if asked.query.kind == "slide" else services.slow).run(work)


@router.post("/explain")
async def explain(services: ServicesOf, asked: ExplainIn) -> EvidenceOut:
    """Return which patches of the query and of a hit made the match."""

    def work() -> EvidenceOut:
        hit = services.fresh_entry(asked.hit)
        request = replace(_request(services, asked.query), options=tuple(asked.options))
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


def _request(services: Services, query: QueryIn, asked: SearchIn | None = None) -> SearchRequest:
    """Turn a request body into a search request. It can only name slides of the archive and stored uploads."""
    if isinstance(query, PatchQuery):
        kept = services.uploads.get(query.patch)
        if kept is None:
            raise _no_patch()
        known: dict[str, Any] = query.model_dump(include={"site", "patient", "center", "mpp"})
        request = SearchRequest(text=str(kept.path), kind="patch", **known)
    elif isinstance(query, RegionQuery):
        region = f"{query.x},{query.y},{query.width},{query.height}"
        request = SearchRequest(text=services.fresh_entry(query.slide).record.id, kind="region", region=region)
    else:
        request = SearchRequest(text=services.fresh_entry(query.slide).record.id)
    if asked is None:
        return request
    return replace(
        request,
        k=asked.k,
        mode=asked.mode,
        where=tuple(asked.where),
        include_same_patient=asked.include_same_patient,
        exclude_center=asked.exclude_center,
        any_stain=asked.any_stain,
        options=tuple(asked.options),
    )


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
        )
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
