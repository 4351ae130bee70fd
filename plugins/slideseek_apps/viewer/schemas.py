"""Requests and responses of the API. The page uses the same API; `/api/openapi.json` describes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from slideseek.searching.request import MOST_TEXT
from slideseek_apps.viewer.opaque_slide_keys import KEY_PATTERN
from slideseek_apps.viewer.uploads import PATCH_PATTERN

FARTHEST = 10_000_000
"""Largest accepted coordinate in level-0 pixels: four times that of the largest scanners."""

SlideKey: TypeAlias = Annotated[str, Field(pattern=KEY_PATTERN, description="Opaque key of a slide.")]
PatchKey: TypeAlias = Annotated[str, Field(pattern=PATCH_PATTERN, description="Key of an uploaded patch image.")]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Corner: TypeAlias = Annotated[int, Field(ge=0, le=FARTHEST)]
Options: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=100)]],
    Field(max_length=20, description="Options of the index or the reranker for this search, such as `depth=200`."),
]
Extent: TypeAlias = Annotated[int, Field(ge=1, le=FARTHEST)]


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Problem(BaseModel):
    """What went wrong and what to do next."""

    error: str
    fix: str = ""


class EngineOut(BaseModel):
    """An engine of the archive. `problem` says why it cannot be searched, and is empty if it can.

    `unit` is the unit of its distances; `patch_um` is the side of a patch in µm. `text`: words can query it.
    """

    name: str
    encoder: str
    featurizer: str
    code: str
    unit: str
    patch_um: float | None
    text: bool
    problem: str
    fix: str


class ArchiveOut(BaseModel):
    """The archive that is served.

    `with_pixels`: slides that have a slide file; features may be imported without. `files`: slide files in folders of
    the server can be queried with. `writable`: collections and annotations can be kept.
    """

    name: str
    version: str
    slides: int
    with_pixels: int
    engines: list[EngineOut]
    facets: list[str]
    fields: list[str]
    sites: list[str]
    files: bool
    writable: bool


class SlideOut(BaseModel):
    """A slide in the catalogue. `version` changes when its pixels may have changed.

    A query that is not a slide of the archive, such as an uploaded patch, has an empty `key`. `fields` come from the
    manifest; `measured` was found on the pixels: `stain`, `blur_um` (µm), shares of `pen`, `folds` and `debris`.
    `pixels`: whether it has a slide file.
    """

    key: str
    version: str
    id: str
    patient: str
    site: str
    label: str
    center: str
    fields: dict[str, str]
    measured: dict[str, str]
    pixels: bool


class PageOut(BaseModel):
    """One page of the `total` slides that pass the filters. `notes`: by key, those of the collection asked for."""

    total: int
    offset: int
    slides: list[SlideOut]
    notes: dict[str, str]


class FacetValue(BaseModel):
    """A value of a facet and how many slides have it."""

    value: str
    slides: int


class FacetOut(BaseModel):
    """A field to filter slides by: `values`, or for a number the `low` and `high` end of its range."""

    name: str
    values: list[FacetValue]
    low: float | None = None
    high: float | None = None


class CompletionOut(BaseModel):
    """A value of a field that contains what was typed, and how many slides have it."""

    field: str
    value: str
    slides: int


class FileOut(BaseModel):
    """A slide file that can be queried with."""

    key: str
    name: str


class ReadinessOut(BaseModel):
    """How many of `engines` have their networks loaded: searches by region and patch wait for theirs."""

    ready: int
    engines: int


class ImageOut(BaseModel):
    """The pixels of a slide.

    Width and height are of the finest level in square pixels: multiply level-0 coordinates by `stretch` (which is 1, 1
    for nearly every scanner). `mpp` is µm per such pixel. Level `levels - 1` is the finest, each lower level half the
    size of the next. Tiles are `tile` pixels wide and high, smaller at the right and bottom edge.
    """

    width: int
    height: int
    stretch: tuple[float, float]
    mpp: float
    objective: float | None
    levels: int
    tile: int
    notes: list[str]


class SlideDetail(BaseModel):
    """A slide with facts about its pixels. If it cannot be read, `image` is null and `problem` says why."""

    slide: SlideOut
    image: ImageOut | None
    problem: Problem | None


class PatchMapOut(BaseModel):
    """The patches of a slide by their places, for slides without pixels: (x, y, side) in level-0 pixels of `mpp` µm."""

    width: int
    height: int
    mpp: float | None
    boxes: list[tuple[int, int, float]]


class CaseQuery(_RequestBody):
    """Query with all slides of the patient of a slide."""

    kind: Literal["case"]
    slide: SlideKey


class SlideQuery(_RequestBody):
    """Query with a slide of the archive, or with a slide file of the server's folders."""

    kind: Literal["slide"]
    slide: SlideKey


class RegionQuery(_RequestBody):
    """Query with a rectangle of a slide, in its level-0 pixels."""

    kind: Literal["region"]
    slide: SlideKey
    x: Corner
    y: Corner
    width: Extent
    height: Extent


class PatchQuery(_RequestBody):
    """Query with an uploaded patch image.

    Optional metadata: `site`, for vertical search and conditioned encoders; `patient`, whose slides are left out;
    `center`, for `exclude_center`; `mpp`, µm per pixel, to crop the field of one patch from the middle.
    """

    kind: Literal["patch"]
    patch: PatchKey
    site: Annotated[str, Field(max_length=200)] = ""
    patient: Annotated[str, Field(max_length=200)] = ""
    center: Annotated[str, Field(max_length=200)] = ""
    mpp: Annotated[float | None, Field(ge=0.05, le=5, allow_inf_nan=False)] = None


class TextQuery(_RequestBody):
    """Query with words, for an engine whose `text` is true. `site`, `patient` and `center`: as for a patch."""

    kind: Literal["text"]
    text: Annotated[str, Field(min_length=1, max_length=MOST_TEXT, pattern=r"\S")]
    site: Annotated[str, Field(max_length=200)] = ""
    patient: Annotated[str, Field(max_length=200)] = ""
    center: Annotated[str, Field(max_length=200)] = ""


QueryIn: TypeAlias = Annotated[
    SlideQuery | RegionQuery | PatchQuery | CaseQuery | TextQuery, Field(discriminator="kind")
]


Marks: TypeAlias = Annotated[list[SlideKey], Field(max_length=200)]
Pick: TypeAlias = Annotated[str, Field(max_length=300)]


class AmongIn(_RequestBody):
    """The slides to search among, filtered as in the list of slides.

    `facet`: `FIELD=VALUE`, several values of a field mean any of them. `range`: `FIELD=LOW..HIGH`, either end may be
    missing. `text`: words that all occur in a slide's id or fields. `collection`: number of a collection.
    """

    text: Annotated[str, Field(max_length=200)] = ""
    facet: Annotated[list[Pick], Field(max_length=40)] = []
    range: Annotated[list[Pick], Field(max_length=20)] = []
    collection: Annotated[int | None, Field(ge=1, le=2**53)] = None


class SearchIn(_RequestBody):
    """A search. `where`: conditions such as `site=lung` or `age>=60`, all of which must hold.

    `mode`: `vertical` searches only slides of the query's site. The query's own patient is left out unless
    `include_same_patient` is set; `exclude_center` leaves out its whole centre. Slides of another stain than the
    query's are left out unless `any_stain` is set or `where` is about the stain. `relevant` and `rejected`: slides that
    the user marked; with any, the search is for more slides like the relevant ones. `among`: the slides to search.
    """

    engine: Name
    query: QueryIn
    k: Annotated[int, Field(ge=1, le=100)] = 10
    mode: Literal["horizontal", "vertical"] = "horizontal"
    where: Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=20)] = []
    include_same_patient: bool = False
    exclude_center: bool = False
    any_stain: bool = False
    options: Options = []
    relevant: Marks = []
    rejected: Marks = []
    among: AmongIn | None = None


class SaveIn(SearchIn):
    """A search to be saved as a file. `identified`: with real ids and all that is known, else with pseudonyms."""

    identified: bool = False


class HitOut(BaseModel):
    """One hit; a smaller distance is more similar. `agrees`: whether its diagnosis is the query's, null if unknown."""

    rank: int
    distance: float
    agrees: bool | None
    slide: SlideOut


class VoteOut(BaseModel):
    """The majority vote: `agreeing` of `hits` have `value`, `labelled` have any value; `confidence` is the share."""

    value: str
    agreeing: int
    labelled: int
    hits: int
    confidence: float


class AnswerOut(BaseModel):
    """The hits of a search, nearest first, in the shape of `slideseek search --json`; slides have keys, not paths.

    `votes`: by field, `site` and `label`.
    """

    query: SlideOut
    engine: str
    unit: str
    mode: str
    candidates: int
    milliseconds: float
    votes: dict[str, VoteOut]
    hits: list[HitOut]
    notes: list[str]


class ExplainIn(_RequestBody):
    """A request to explain a hit. `options`: those that the search was given."""

    engine: Name
    query: QueryIn
    hit: SlideKey
    options: Options = []


class GeoJsonIn(ExplainIn):
    """The patches of one slide of a match, as GeoJSON for QuPath."""

    side: Literal["query", "hit"]


class PlacesIn(_RequestBody):
    """A request for the places of hits that match a query best."""

    engine: Name
    query: QueryIn
    hits: Marks
    options: Options = []


class PlaceOut(BaseModel):
    """The square of a slide that matches a query best, in level-0 pixels."""

    slide: str
    x: int
    y: int
    side: float


class CalibrationOut(BaseModel):
    """How often a vote was `right`, of `searched` slides of the archive whose hits agreed as much; and over `all`."""

    right: int
    searched: int
    all_right: int
    all_searched: int


class RecentOut(BaseModel):
    """A past search. `address`: what the page's address has to say to show it again; null if it cannot be repeated."""

    number: int
    asked: str
    engine: str
    title: str
    settings: str
    hits: list[str]
    address: dict[str, str] | None


class CollectionIn(_RequestBody):
    """The name of a collection."""

    name: Annotated[str, Field(min_length=1, max_length=200)]


class CollectionOut(BaseModel):
    """A collection of slides."""

    id: int
    name: str
    made: str
    who: str
    slides: int


class NoteIn(_RequestBody):
    """A note on a slide of a collection."""

    note: Annotated[str, Field(max_length=5000)] = ""


class HoldingOut(BaseModel):
    """The collections that a slide is in: its note by the number of the collection."""

    notes: dict[int, str]


class ShapeIn(_RequestBody):
    """An annotation: corners (x, y) in level-0 pixels; a polygon is closed by itself."""

    kind: Literal["rectangle", "polygon"]
    name: Annotated[str, Field(max_length=200)] = ""
    corners: Annotated[
        list[
            tuple[
                Annotated[float, Field(ge=-FARTHEST, le=FARTHEST, allow_inf_nan=False)],
                Annotated[float, Field(ge=-FARTHEST, le=FARTHEST, allow_inf_nan=False)],
            ]
        ],
        Field(min_length=3, max_length=5000),
    ]


class AnnotationsIn(_RequestBody):
    """All annotations of a slide. `revision`: of those that were changed."""

    revision: Annotated[int, Field(ge=0, le=2**53)]
    shapes: Annotated[list[ShapeIn], Field(max_length=1000)]


class AnnotationsOut(BaseModel):
    """The annotations of a slide as a GeoJSON FeatureCollection in level-0 pixels, as QuPath reads it."""

    type: Literal["FeatureCollection"] = "FeatureCollection"
    revision: int
    features: list[dict[str, Any]]


class SideOut(BaseModel):
    """The patches of one side: (x, y, side) in level-0 pixels, and their contributions; higher is more similar.

    `slides`: the key of the slide of each patch if they are of several, as those of a case; else empty.
    """

    boxes: list[tuple[int, int, float]]
    parts: list[float]
    slides: list[str]


class PairOut(BaseModel):
    """A patch of the query and the most similar patch of the hit, as positions in the boxes of their sides."""

    query: int
    hit: int
    distance: float


class EvidenceOut(BaseModel):
    """What made a hit similar.

    `contributions`: `value` is the similarity, and the parts of each side add up to it. `pairs`: `value` is the
    distance, the median over pairs unless a reranker has another rule; a part is minus the distance of the patch's
    pair.
    """

    kind: Literal["pairs", "contributions", "removals"]
    value: float
    unit: str
    query: SideOut
    hit: SideOut
    pairs: list[PairOut]


class PatchOut(BaseModel):
    """An uploaded patch image, kept until the server stops or 32 newer ones are uploaded."""

    patch: str
    width: int
    height: int
