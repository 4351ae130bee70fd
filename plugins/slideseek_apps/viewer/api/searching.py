"""Routes that search: by slide, by region, by an uploaded patch; and why a hit was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from slideseek.searching.evidence import Evidence
from slideseek.searching.request import Request as Asked
from slideseek.searching.searcher import Answer
from slideseek_apps.viewer.api.services import NotThereError, Services, ServicesOf, slide_out
from slideseek_apps.viewer.privacy import without_paths
from slideseek_apps.viewer.schemas import (
    AnswerOut,
    EvidenceOut,
    ExplainIn,
    HitOut,
    PairOut,
    PatchKey,
    PatchOut,
    PatchQuery,
    QueryIn,
    RegionQuery,
    SearchIn,
    SideOut,
    VoteOut,
)

router = APIRouter(tags=["search"])

_BYTES = {"schema": {"type": "string", "format": "binary"}}
UPLOAD = {"requestBody": {"required": True, "content": {f"image/{kind}": _BYTES for kind in ("png", "jpeg", "webp")}}}


@router.post("/search")
async def search(services: ServicesOf, asked: SearchIn) -> AnswerOut:
    """Find the slides most similar to a slide, a region or a patch."""

    def work() -> AnswerOut:
        answer = services.desk.search(asked.engine, _request(services, asked.query, asked))
        return _answer(services, answer, services.desk.unit(asked.engine))

    return await (services.asking if asked.query.kind == "slide" else services.thinking).run(work)


@router.post("/explain")
async def explain(services: ServicesOf, asked: ExplainIn) -> EvidenceOut:
    """Tell which patches of the query and of a hit made the match."""

    def work() -> EvidenceOut:
        hit = services.fresh_entry(asked.hit)
        evidence = services.desk.explain(asked.engine, _request(services, asked.query), hit.record.id)
        return _evidence(evidence, services.desk.unit(asked.engine))

    return await services.thinking.run(work)


@router.post("/patches", openapi_extra=UPLOAD)
async def upload(services: ServicesOf, request: Request) -> PatchOut:
    """Take a patch image, sent as it is (PNG, JPEG or WebP), to search with."""
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


def _request(services: Services, query: QueryIn, asked: SearchIn | None = None) -> Asked:
    """Turn what came over the network into a request that can only name slides and uploads that are here."""
    if isinstance(query, PatchQuery):
        kept = services.uploads.get(query.patch)
        if kept is None:
            raise _no_patch()
        request = Asked(str(kept.path), "patch", site=query.site)
    elif isinstance(query, RegionQuery):
        region = f"{query.x},{query.y},{query.width},{query.height}"
        request = Asked(services.fresh_entry(query.slide).record.id, "region", region)
    else:
        request = Asked(services.fresh_entry(query.slide).record.id)
    if asked is None:
        return request
    return replace(
        request,
        k=asked.k,
        mode=asked.mode,
        where=tuple(asked.where),
        include_same_patient=asked.include_same_patient,
        exclude_center=asked.exclude_center,
    )


def _no_patch() -> NotThereError:
    return NotThereError("this patch is not held any more", "upload it again")


def _answer(services: Services, answer: Answer, unit: str) -> AnswerOut:
    directory = services.desk.directory
    hits = []
    for one in answer.found:
        entry = directory.of_id(one.hit.slide_id)
        if entry is None:  # removed between the search and now
            continue
        mine, other = answer.query.label, one.record.label
        agrees = mine == other if mine and other else None
        hits.append(HitOut(rank=one.rank, slide=slide_out(entry), distance=one.hit.distance, agrees=agrees))
    votes = []
    for name, (value, number) in answer.votes.items():
        confidence = answer.confidence(name)
        votes.append(VoteOut(field=name, value=value, hits=number, of=confidence.hits, confidence=confidence.share))
    return AnswerOut(
        engine=answer.engine,
        unit=unit,
        mode=answer.mode,
        hits=hits,
        votes=votes,
        candidates=answer.candidates,
        milliseconds=answer.milliseconds,
        notes=[without_paths(note, answer.query.path) for note in answer.notes],
    )


def _evidence(evidence: Evidence, unit: str) -> EvidenceOut:
    sides = [
        SideOut(
            boxes=[(int(x), int(y), float(side)) for (x, y), side in zip(fields.xy, fields.side)],
            parts=[float(part) for part in parts],
        )
        for fields, parts in ((evidence.query, evidence.parts), (evidence.hit, evidence.hit_parts))
    ]
    return EvidenceOut(
        kind=evidence.kind,
        value=evidence.value,
        unit=unit if evidence.kind == "pairs" else "",
        query=sides[0],
        hit=sides[1],
        pairs=[PairOut(query=one.query, hit=one.hit, distance=one.distance) for one in evidence.pairs],
    )
