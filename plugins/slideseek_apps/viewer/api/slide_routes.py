"""Slide routes: the archive, lists, facets, metadata and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np
from fastapi import APIRouter, Header, Path, Query, Response

from slideseek import __version__
from slideseek.errors import SlideError, UsageError
from slideseek_apps.viewer.api.services import NotThereError, Services, ServicesOf, entry_out, slide_out
from slideseek_apps.viewer.hide_paths import without_paths
from slideseek_apps.viewer.schemas import (
    FARTHEST,
    ArchiveOut,
    CompletionOut,
    EngineOut,
    FacetOut,
    FacetValue,
    FileOut,
    ImageOut,
    PageOut,
    PatchMapOut,
    Problem,
    SlideDetail,
    SlideKey,
)
from slideseek_apps.viewer.slide_directory import Entry, Selection
from slideseek_apps.viewer.tiles import MAX_LEVEL, OVERVIEW, TILE, Picture

router = APIRouter(tags=["slides"])

MAX_TILE = FARTHEST // TILE
Responses: TypeAlias = dict[int | str, dict[str, Any]]
JPEG: Responses = {200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}}
NOT_MODIFIED: Responses = {304: {"description": "The browser's cached picture is up to date."}}

Key = Annotated[SlideKey, Path()]
Text = Annotated[str, Query(max_length=200, description="Words that all occur in a slide's id or fields.")]
Picks = Annotated[
    list[Annotated[str, Query(max_length=300)]],
    Query(max_length=40, description="`FIELD=VALUE`; a slide must have one of the values picked for each field."),
]
Ranges = Annotated[
    list[Annotated[str, Query(max_length=300)]],
    Query(max_length=20, description="`FIELD=LOW..HIGH` for a numeric field; either end may be missing."),
]
InCollection = Annotated[int | None, Query(ge=1, le=2**53, description="Only slides of the collection of this number.")]
Sort = Annotated[str, Query(max_length=200, description="A field of the slides, such as `id`, `label` or `age`.")]
IfNoneMatch = Annotated[str, Header(max_length=1000)]
Version = Annotated[str, Query(max_length=40, description="The slide's version, for caching in the browser.")]


@router.get("/archive")
async def archive(services: ServicesOf) -> ArchiveOut:
    """Return the archive: engines, facets, fields, sites."""
    searching = services.searching
    engines = await services.quick.run(searching.engines)
    directory = await services.quick.run(lambda: searching.directory)
    shown = [
        EngineOut(
            name=one.name,
            encoder=one.encoder,
            featurizer=one.featurizer,
            code=one.code,
            unit=one.unit,
            patch_um=one.patch_um,
            text=one.text,
            problem=without_paths(one.problem, str(searching.archive.root)),
            fix=without_paths(one.fix, str(searching.archive.root)),
        )
        for one in engines
    ]
    return ArchiveOut(
        name=searching.archive.root.name,
        version=__version__,
        slides=len(directory),
        with_pixels=directory.with_pixels,
        engines=shown,
        facets=list(directory.facets),
        fields=list(directory.fields),
        sites=directory.sites,
        files=bool(searching.files),
        writable=searching.writable,
    )


@router.get("/slides")
async def slides(
    services: ServicesOf,
    text: Text = "",
    facet: Picks = [],  # noqa: B006 - FastAPI copies defaults
    range: Ranges = [],  # noqa: A002, B006
    collection: InCollection = None,
    sort: Sort = "id",
    falling: bool = False,
    offset: Annotated[int, Query(ge=0, le=100_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 48,
) -> PageOut:
    """List slides, one page at a time."""

    def page() -> PageOut:
        directory = services.searching.directory
        chosen = selection_of(services, text, facet, range, collection)
        total, found = directory.page(chosen, sort, offset, limit, falling)
        notes = {one.slide_id: one.note for one in services.notebook.slides(collection)} if collection else {}
        shown = {entry.key: notes[entry.record.id] for entry in found if entry.record.id in notes}
        listed = [slide_out(entry.record, entry) for entry in found]
        return PageOut(total=total, offset=offset, slides=listed, notes=shown)

    return await services.quick.run(page)


@router.get("/facets")
async def facets(
    services: ServicesOf,
    text: Text = "",
    facet: Picks = [],  # noqa: B006
    range: Ranges = [],  # noqa: A002, B006
    collection: InCollection = None,
) -> list[FacetOut]:
    """Count the slides for each value of each facet, and list the ranges of numeric fields."""

    def counts() -> list[FacetOut]:
        directory = services.searching.directory
        found = directory.counts(selection_of(services, text, facet, range, collection))
        values = [
            FacetOut(name=name, values=[FacetValue(value=value, slides=number) for value, number in values])
            for name, values in found.items()
        ]
        return values + [FacetOut(name=n, values=[], low=low, high=high) for n, (low, high) in directory.ranges.items()]

    return await services.quick.run(counts)


@router.get("/completions")
async def completions(services: ServicesOf, text: Text = "") -> list[CompletionOut]:
    """Return values of fields that contain a text, for completion."""
    found = await services.quick.run(lambda: services.searching.directory.complete(text))
    return [CompletionOut(field=field, value=value, slides=slides) for field, value, slides in found]


@router.get("/files")
async def files(services: ServicesOf) -> list[FileOut]:
    """List the slide files in the server's folders that can be queried with."""
    found = await services.slow.run(services.searching.files.names)
    return [FileOut(key=key, name=name) for key, name in sorted(found.items(), key=lambda one: one[1])]


@router.get("/slides/{key}/patches")
async def patches(
    services: ServicesOf, key: Key, engine: Annotated[str, Query(min_length=1, max_length=200)]
) -> PatchMapOut:
    """Return the places of a slide's patches, to draw a map of a slide without pixels."""

    def work() -> PatchMapOut:
        found = services.searching.patches(engine, services.fresh_entry(key).record.id)
        xy, side = found.squares.xy, found.squares.side
        width, height = (int(value) for value in np.ceil((xy + side[:, None]).max(axis=0)))
        boxes = [(int(x), int(y), float(one)) for (x, y), one in zip(xy, side)]
        return PatchMapOut(width=max(width, 1), height=max(height, 1), mpp=found.bag.mpp, boxes=boxes)

    return await services.quick.run(work)


@router.get("/slides/{key}")
async def slide(services: ServicesOf, key: Key) -> SlideDetail:
    """Return the metadata of one slide and of its image."""
    entry = await services.quick.run(services.fresh_entry, key)
    if not entry.has_pixels:
        return SlideDetail(slide=entry_out(services, entry), image=None, problem=None)
    try:
        grid, opened = await services.pixels.run_on(entry.key, services.pictures.grid, entry)
    except SlideError as error:
        path = str(services.searching.archive.slide_path(entry.record))
        problem = Problem(error=without_paths(error.cause, path), fix=without_paths(error.fix, path))
        return SlideDetail(slide=entry_out(services, entry), image=None, problem=problem)
    image = ImageOut(
        width=grid.width,
        height=grid.height,
        stretch=grid.stretch,
        mpp=opened.mpp,
        objective=opened.facts.objective,
        levels=grid.levels,
        tile=TILE,
        notes=[without_paths(note) for note in opened.notes],
    )
    return SlideDetail(slide=entry_out(services, entry), image=image, problem=None)


@router.get("/slides/{key}/thumbnail", response_class=Response, responses=JPEG | NOT_MODIFIED)
async def thumbnail(
    services: ServicesOf,
    key: Key,
    side: Annotated[int, Query(ge=32, le=OVERVIEW)] = 384,
    v: Version = "",
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Return the whole slide as a small JPEG."""
    return await _drawn(services, key, v, if_none_match, f"{side}", lambda e: services.pictures.thumbnail(e, side))


@router.get("/slides/{key}/tiles/{level}/{column}/{row}", response_class=Response, responses=JPEG | NOT_MODIFIED)
async def tile(
    services: ServicesOf,
    key: Key,
    level: Annotated[int, Path(ge=0, le=MAX_LEVEL)],
    column: Annotated[int, Path(ge=0, le=MAX_TILE)],
    row: Annotated[int, Path(ge=0, le=MAX_TILE)],
    v: Version = "",
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Return one tile of the slide's pyramid."""

    def draw(entry: Entry) -> Picture:
        found = services.pictures.tile(entry, level, column, row)
        if found is None:
            cause = f"the slide has no tile {column},{row} at level {level}"
            raise NotThereError(cause, "see width, height and levels")
        return found

    return await _drawn(services, key, v, if_none_match, f"{level}-{column}-{row}", draw)


@router.get("/slides/{key}/field", response_class=Response, responses=JPEG | NOT_MODIFIED)
async def field(
    services: ServicesOf,
    key: Key,
    x: Annotated[int, Query(ge=-FARTHEST, le=FARTHEST)],
    y: Annotated[int, Query(ge=-FARTHEST, le=FARTHEST)],
    extent: Annotated[float, Query(ge=1, le=16384, allow_inf_nan=False)],
    side: Annotated[int, Query(ge=16, le=512)] = 128,
    v: Version = "",
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Return the square at x, y that is `extent` level-0 pixels wide, drawn `side` pixels wide."""
    name = f"field-{x}-{y}-{extent:g}-{side}"
    return await _drawn(services, key, v, if_none_match, name, lambda e: services.pictures.field(e, x, y, extent, side))


async def _drawn(
    services: ServicesOf, key: str, version: str, known: str, name: str, draw: Callable[[Entry], Picture]
) -> Response:
    """Return a picture of a slide, or 304 if the browser's copy is current. `name` identifies the picture."""
    entry = await services.entry(key)
    etag = f'"{entry.version}-{name}"'
    if etag in known:
        return _unchanged(entry, version, etag)
    return _picture(await services.pixels.run_on(entry.key, draw, entry), entry, version, etag)


def selection_of(
    services: Services, text: str, facet: Sequence[str], ranges: Sequence[str], collection: int | None
) -> Selection:
    """Return a filter from the parameters of a request."""
    directory = services.searching.directory
    picks: dict[str, set[str]] = {}
    for pick in facet:
        name, value = _field_of(pick, directory.facets, "FIELD=VALUE")
        picks.setdefault(name, set()).add(value)
    between: dict[str, tuple[float | None, float | None]] = {}
    for pick in ranges:
        name, value = _field_of(pick, tuple(directory.ranges), "FIELD=LOW..HIGH")
        low, dots, high = value.partition("..")
        try:
            between[name] = float(low) if low else None, float(high) if high else None
        except ValueError:
            dots = ""
        if not dots:
            raise UsageError(f"{pick!r} is not a range", "write FIELD=LOW..HIGH; either end may be missing")
    ids = frozenset(one.slide_id for one in services.notebook.slides(collection)) if collection else None
    return Selection({name: frozenset(values) for name, values in picks.items()}, text, between, ids)


def _field_of(pick: str, names: Sequence[str], form: str) -> tuple[str, str]:
    # A field's name may contain an equals sign: the longest matching field wins.
    matching = [name for name in names if pick.startswith(f"{name}=")]
    if not matching:
        raise UsageError(
            f"{pick!r} matches no facet of this archive", f"write {form}; fields: {', '.join(names) or 'none'}"
        )
    name = max(matching, key=len)
    return name, pick[len(name) + 1 :]


def _picture(picture: Picture, entry: Entry, version: str, etag: str) -> Response:
    headers = {"etag": etag, "cache-control": _keep(entry, version)} if picture.whole else {"cache-control": "no-store"}
    return Response(picture.jpeg, media_type="image/jpeg", headers=headers)


def _unchanged(entry: Entry, version: str, etag: str) -> Response:
    return Response(status_code=304, headers={"etag": etag, "cache-control": _keep(entry, version)})


def _keep(entry: Entry, version: str) -> str:
    """Let the browser cache a picture for a day if its address contains the slide's version; else revalidate."""
    return "private, max-age=86400, immutable" if version == entry.version else "private, no-cache"
