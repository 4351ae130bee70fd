"""What the API takes and gives: the page uses exactly this, and `/api/openapi.json` describes it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from slideseek_apps.viewer.opaque_slide_keys import KEY_PATTERN
from slideseek_apps.viewer.uploads import PATCH_PATTERN

FARTHEST = 10_000_000
"""Largest coordinate, in level-0 pixels, that is worth looking at: four times the largest scanner's."""

SlideKey: TypeAlias = Annotated[str, Field(pattern=KEY_PATTERN, description="Opaque key of a slide.")]
PatchKey: TypeAlias = Annotated[str, Field(pattern=PATCH_PATTERN, description="Key of an uploaded patch image.")]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Corner: TypeAlias = Annotated[int, Field(ge=0, le=FARTHEST)]
Extent: TypeAlias = Annotated[int, Field(ge=1, le=FARTHEST)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Problem(BaseModel):
    """What went wrong and what to do next."""

    error: str
    fix: str = ""


class EngineOut(BaseModel):
    """An engine of the archive. `problem` says why it cannot be searched; it is empty when it can.

    `unit` is what its distances count; `patch_um` is the side of one of its patches in µm.
    """

    name: str
    encoder: str
    featurizer: str
    code: str
    unit: str
    patch_um: float | None
    problem: str
    fix: str


class ArchiveOut(BaseModel):
    """The archive that is served."""

    name: str
    version: str
    slides: int
    engines: list[EngineOut]
    facets: list[str]
    fields: list[str]
    sites: list[str]


class SlideOut(BaseModel):
    """A slide as the catalogue knows it. `version` changes when its pixels may have.

    A query that is not a slide of the archive, such as an uploaded patch, has an empty `key`.
    """

    key: str
    version: str
    id: str
    patient: str
    site: str
    label: str
    center: str
    fields: dict[str, str]


class PageOut(BaseModel):
    """One page of slides out of `total` that pass."""

    total: int
    offset: int
    slides: list[SlideOut]


class FacetValue(BaseModel):
    """A value of a facet and how many slides have it."""

    value: str
    slides: int


class FacetOut(BaseModel):
    """A field to sort slides out by."""

    name: str
    values: list[FacetValue]


class ImageOut(BaseModel):
    """The pixels of a slide.

    Width and height are of the finest level in square pixels: multiply level-0 coordinates by `stretch` (which is 1, 1
    for nearly every scanner). `mpp` is µm per such pixel. Level `levels - 1` is the finest, each one before it half of
    the next; tiles are `tile` pixels a side, smaller at the right and lower edge.
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
    """A slide with what is known of its pixels; `image` is null and `problem` says why when it cannot be read."""

    slide: SlideOut
    image: ImageOut | None
    problem: Problem | None


class SlideQuery(_Asked):
    """Query with a slide of the archive."""

    kind: Literal["slide"]
    slide: SlideKey


class RegionQuery(_Asked):
    """Query with a rectangle of a slide, in its level-0 pixels."""

    kind: Literal["region"]
    slide: SlideKey
    x: Corner
    y: Corner
    width: Extent
    height: Extent


class PatchQuery(_Asked):
    """Query with an uploaded patch image.

    What is known of it: `site`, for vertical search and conditioned encoders; `patient`, whose slides are left out;
    `center`, for `exclude_center`; `mpp`, µm per pixel, to cut the field of a patch from its middle.
    """

    kind: Literal["patch"]
    patch: PatchKey
    site: Annotated[str, Field(max_length=200)] = ""
    patient: Annotated[str, Field(max_length=200)] = ""
    center: Annotated[str, Field(max_length=200)] = ""
    mpp: Annotated[float | None, Field(ge=0.05, le=5, allow_inf_nan=False)] = None


QueryIn: TypeAlias = Annotated[SlideQuery | RegionQuery | PatchQuery, Field(discriminator="kind")]


class SearchIn(_Asked):
    """A search. `where`: conditions such as `site=lung` or `age>=60`, all of which must hold.

    `mode`: `vertical` looks among slides of the query's site only. The query's own patient is left out unless
    `include_same_patient`; with `exclude_center` its whole centre is.
    """

    engine: Name
    query: QueryIn
    k: Annotated[int, Field(ge=1, le=100)] = 10
    mode: Literal["horizontal", "vertical"] = "horizontal"
    where: Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=20)] = []
    include_same_patient: bool = False
    exclude_center: bool = False


class HitOut(BaseModel):
    """One hit: a smaller distance is more alike. `agrees`: its diagnosis is the query's; null when unknown."""

    rank: int
    distance: float
    agrees: bool | None
    slide: SlideOut


class VoteOut(BaseModel):
    """What most hits carry: `agreeing` of `hits` carry `value`, `labelled` any; `confidence` is the agreeing share."""

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


class ExplainIn(_Asked):
    """A question why a slide was found."""

    engine: Name
    query: QueryIn
    hit: SlideKey


class SideOut(BaseModel):
    """The patches of one side: (x, y, side) in level-0 pixels, and what each adds; higher is more alike."""

    boxes: list[tuple[int, int, float]]
    parts: list[float]


class PairOut(BaseModel):
    """A patch of the query and the patch of the hit most like it: positions in the boxes of their sides."""

    query: int
    hit: int
    distance: float


class EvidenceOut(BaseModel):
    """What made a hit similar.

    `contributions`: `value` is the similarity, and the parts of either side add up to it. `pairs`: `value` is the
    distance, the median over pairs; a part is minus the distance of the patch's pair.
    """

    kind: Literal["pairs", "contributions"]
    value: float
    unit: str
    query: SideOut
    hit: SideOut
    pairs: list[PairOut]


class PatchOut(BaseModel):
    """An uploaded patch image, held until the server stops or 32 others have come."""

    patch: str
    width: int
    height: int
