"""A search request: one form for every front end, complete enough to run the same search again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from slideseek.errors import ParameterError, SlideseekError, UsageError
from slideseek.searching.feedback import more_like_these
from slideseek.searching.queries import Query, Region
from slideseek.searching.searcher import Answer, Found, Mode, Searcher
from slideseek.slides.area import Annotations

UPLOADED = "uploaded image "
"""Prefix of the text of a request for an uploaded image, which is not kept; a digest of its pixels follows."""

QueryKind: TypeAlias = Literal["slide", "region", "patch", "case", "text"]

_OF_QUERY = ("text", "kind", "region", "annotation", "site", "patient", "center", "mpp")
_LISTS = ("where", "relevant", "rejected", "options")
_NO_FILE = ("case", "text")

MOST_TEXT = 2000  # characters; models read a few hundred at most


def query_kind(region: str | None, patch: bool, case: bool, text: bool) -> QueryKind:
    """Return the kind of query; more than one is a `ParameterError`."""
    if (region is not None) + patch + case + text > 1:
        raise ParameterError("kind", "region, patch, case and text cannot be used together")
    return "region" if region is not None else "patch" if patch else "case" if case else "text" if text else "slide"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to search for and how.

    text: the id of a slide in the archive, a slide file, a patch image, a patient or words, by `kind`. region:
    `x,y,w,h` as `Region.parse` reads it, or a GeoJSON file; `annotation` then names one of its annotations. site,
    patient, center, mpp: what is known about a file. relevant and rejected: ids of slides marked by the user; with
    any, the search is for more slides like the relevant ones. any_stain: find, and join in a case, slides of any stain,
    not only of the query's. options: `name=value`, options of the index or the
    reranker for this search only.
    """

    text: str
    kind: QueryKind = "slide"
    region: str = ""
    annotation: str = ""
    site: str = ""
    patient: str = ""
    center: str = ""
    mpp: float | None = None
    k: int = 5
    mode: Mode = "horizontal"
    where: tuple[str, ...] = ()
    include_same_patient: bool = False
    exclude_center: bool = False
    relevant: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    any_stain: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(QueryKind):
            raise ParameterError("kind", f"kind must be one of {', '.join(get_args(QueryKind))}, not {self.kind!r}")
        if self.mode not in get_args(Mode):
            raise ParameterError("mode", f"mode must be one of {', '.join(get_args(Mode))}, not {self.mode!r}")
        if type(self.k) is not int or self.k < 1:
            raise ParameterError("k", f"k must be a whole number of at least 1, not {self.k!r}")
        if bool(self.region) != (self.kind == "region"):
            raise ParameterError("region", f"a region goes with kind 'region' only, not {self.kind!r}")
        if self.kind == "text" and (self.mpp is not None or not 0 < len(self.text.strip()) <= MOST_TEXT):
            raise UsageError(f"a query with text is 1 to {MOST_TEXT} characters long and has no mpp")
        if self.annotation and not self._is_drawn:
            cause = f"annotation {self.annotation!r} needs a GeoJSON file, and none is given"
            raise ParameterError("region", cause)

    def run(self, searcher: Searcher, query: Query | None = None) -> Result:
        """Create the query and search with it. query: the result of an earlier `query()`, to reuse it."""
        query = replace(self.query(searcher) if query is None else query, any_stain=self.any_stain)
        how = self.mode, self.where, self.include_same_patient, self.exclude_center, self.options
        if self.relevant or self.rejected:
            answer = more_like_these(searcher, query, self.relevant, self.rejected, self.k, *how)
        else:
            answer = searcher.search(query, self.k, *how)
        return Result(self, query, answer)

    def query(self, searcher: Searcher) -> Query:
        """Create the query: read and encode pixels if needed."""
        known: dict[str, Any] = {"site": self.site, "patient": self.patient, "center": self.center, "mpp": self.mpp}
        row = searcher.archive.catalog.slides.get(self.text) if self.kind not in _NO_FILE else None
        if row is not None and (given := [name for name, value in known.items() if value]):
            raise UsageError(
                f"{' and '.join(given)} applies to a query file, but {self.text!r} is a slide of the archive",
                "omit it; to change a slide's record, add the slide again with a manifest",
            )
        if self.kind == "case":
            return searcher.queries.case(self.text, self.any_stain)
        if self.kind == "text":
            return searcher.queries.text(self.text, site=self.site, patient=self.patient, center=self.center)
        if self.kind == "region":
            made = searcher.queries.region(self.text, self._part(), **known)
        elif self.kind == "patch":
            if self.text.startswith(UPLOADED):
                cause = f"{self.text} was uploaded to the viewer, which does not keep images"
                raise SlideseekError(cause, "upload it again in the viewer, or query with the image file")
            made = searcher.queries.patch(Path(self.text), **known)
        else:
            made = searcher.query(self.text, **known)
        unused = [name for name in ("site", "patient", "center") if known[name]]
        if unused and searcher.archive.catalog.slides.get(made.record.id) is not None:
            note = f"not used: {', '.join(unused)} (the archive's own record of the slide applies)"
            made = replace(made, notes=(*made.notes, note))
        return made

    @property
    def _is_drawn(self) -> bool:
        return Path(self.region).suffix.lower() in (".geojson", ".json")

    def _part(self) -> Region | Annotations:
        """Return the part of the slide to query with."""
        return Annotations.read(Path(self.region), self.annotation) if self._is_drawn else Region.parse(self.region)

    def question(self) -> Request:
        """Return the request without its search options: equal requests make equal queries."""
        known = {name: getattr(self, name) for name in _OF_QUERY}
        return Request(**known, any_stain=self.any_stain and self.kind == "case")

    def pack(self) -> dict[str, Any]:
        """Return the request as plain data, without default values."""
        plain = Request(text=self.text)
        return {name: value for name, value in asdict(self).items() if name == "text" or value != getattr(plain, name)}

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Request:
        """Return the request from the output of `pack`; a field this version does not know is an error."""
        names = {field.name for field in fields(cls)}
        if unknown := sorted(set(packed) - names):
            cause = f"a logged query has {', '.join(unknown)}, which this version does not know"
            raise SlideseekError(cause, "update slideseek")
        made: dict[str, Any] = {n: tuple(value) if n in _LISTS else value for n, value in packed.items()}
        return cls(**made)

    def absolute(self) -> Request:
        """Return the request with the full path of its file, to be run from any folder."""
        text, region = Path(self.text), Path(self.region)
        moved = replace(self, text=str(text.resolve())) if self.kind not in _NO_FILE and text.is_file() else self
        return replace(moved, region=str(region.resolve())) if self.region and region.is_file() else moved

    def settings(self) -> str:
        """Describe the search options in one line."""
        parts = [f"k = {self.k}", *self.where, *self.options]
        if self.include_same_patient:
            parts.append("own patient included")
        if self.exclude_center:
            parts.append("other centres only")
        if self.any_stain:
            parts.append("any stain")
        if self.relevant or self.rejected:
            parts.append(f"more like {len(self.relevant)} marked relevant, unlike {len(self.rejected)}")
        return ", ".join(parts)

    def __str__(self) -> str:
        """Describe the query briefly, for a line of the history."""
        what = {"slide": "", "region": f" region {self.region}"}.get(self.kind, f" ({self.kind})")
        more = f" + {len(self.relevant)} relevant, {len(self.rejected)} not" if self.relevant or self.rejected else ""
        return f"{self.text}{what}{more}"


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """A completed request: its query and the answer. Iterating yields the hits, nearest first."""

    request: Request
    query: Query
    answer: Answer

    def __repr__(self) -> str:
        hits = ", ".join(f"{one.hit.slide_id} ({one.hit.distance:.6g})" for one in self)
        return f"<{len(self)} hits for {str(self.request)!r}, engine {self.answer.engine}: {hits or 'none'}>"

    def __iter__(self) -> Iterator[Found]:
        return iter(self.answer.found)

    def __len__(self) -> int:
        return len(self.answer.found)

    def __getitem__(self, at: int) -> Found:
        return self.answer.found[at]

    def with_notes(self, *notes: str) -> Result:
        """Return the result with more notes; empty ones are dropped."""
        return replace(self, answer=replace(self.answer, notes=(*self.answer.notes, *filter(None, notes))))

    def _repr_html_(self) -> str:
        from slideseek.searching.answer_html import answer_html

        return answer_html(self.answer)
