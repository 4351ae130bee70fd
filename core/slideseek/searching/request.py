"""A search as it was asked: enough to ask exactly the same again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from slideseek.errors import SlideseekError, UsageError
from slideseek.searching.feedback import more_like_these
from slideseek.searching.queries import Query, Region
from slideseek.searching.searcher import Answer, Mode, Searcher
from slideseek.slides.area import Annotations

UPLOADED = "uploaded image "
"""How the text of a request begins whose image was sent to the viewer and is gone: a digest of its pixels follows."""

QueryKind: TypeAlias = Literal["slide", "region", "patch", "case"]


def query_kind(region: str | None, patch: bool, case: bool) -> QueryKind:
    """Return the kind that options of a command line ask for; more than one is a `UsageError`."""
    if (region is not None) + patch + case > 1:
        raise UsageError("--region, --patch and --case exclude each other")
    return "region" if region is not None else "patch" if patch else "case" if case else "slide"


@dataclass(frozen=True, slots=True)
class Request:
    """What is searched for and how.

    kind: `slide` is the id of a slide in the archive or a slide file. text: the id, file or patient. region: `x,y,w,h`
    as `Region.parse` reads it, or a GeoJSON file, of which `annotation` names one. site, patient, center, mpp: what is
    known of a file. relevant and rejected: ids of slides marked by a person; with any, the search is for more like
    these.
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

    def query(self, searcher: Searcher) -> Query:
        """Make the query: read and encode pixels if need be."""
        known = self.site, self.patient, self.mpp, self.center
        if self.kind == "region":
            return searcher.ask.region(self.text, self._part(), *known)
        if self.kind == "patch" and self.text.startswith(UPLOADED):
            cause = f"{self.text} was sent to the viewer, which does not keep images"
            raise SlideseekError(cause, "upload it again in 'slideseek serve', or run 'slideseek search FILE --patch'")
        if self.kind == "patch":
            return searcher.ask.patch(Path(self.text), *known)
        if self.kind == "case":
            return searcher.ask.case(self.text)
        return searcher.query(self.text, *known)

    def _part(self) -> Region | Annotations:
        """Return the part of the slide that is asked about."""
        path = Path(self.region)
        drawn = self.annotation or path.suffix.lower() in (".geojson", ".json")
        return Annotations.read(path, self.annotation) if drawn else Region.parse(self.region)

    def answer(self, searcher: Searcher, query: Query) -> Answer:
        """Search with a query this request made."""
        how = self.mode, self.where, self.include_same_patient, self.exclude_center
        if not (self.relevant or self.rejected):
            return searcher.search(query, self.k, *how)
        return more_like_these(searcher, query, self.relevant, self.rejected, self.k, *how)

    def pack(self) -> dict[str, Any]:
        """Return the request as plain data, without what was left at its default."""
        plain = Request(self.text)
        return {name: value for name, value in asdict(self).items() if name == "text" or value != getattr(plain, name)}

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Request:
        """Return the request that `pack` made plain; a field this version does not know is an error."""
        names = {field.name for field in fields(cls)}
        if unknown := sorted(set(packed) - names):
            cause = f"a logged query has {', '.join(unknown)}, which this version does not know"
            raise SlideseekError(cause, "update slideseek")
        lists = ("where", "relevant", "rejected")
        made: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in packed.items()}
        return cls(**made)

    def absolute(self) -> Request:
        """Return the request with the full path of a file, so that it can be asked from another folder."""
        text, region = Path(self.text), Path(self.region)
        moved = replace(self, text=str(text.resolve())) if self.kind != "case" and text.is_file() else self
        return replace(moved, region=str(region.resolve())) if self.region and region.is_file() else moved

    def settings(self) -> str:
        """Say how was asked, in a line."""
        parts = [f"k = {self.k}", *self.where]
        if self.include_same_patient:
            parts.append("own patient kept")
        if self.exclude_center:
            parts.append("other centres only")
        if self.relevant or self.rejected:
            parts.append(f"more like {len(self.relevant)} marked relevant, unlike {len(self.rejected)}")
        return ", ".join(parts)

    def __str__(self) -> str:
        """Say what was asked in a few words, for a line of history."""
        what = {"slide": "", "region": f" region {self.region}", "patch": " (patch)", "case": " (case)"}[self.kind]
        more = f" + {len(self.relevant)} relevant, {len(self.rejected)} not" if self.relevant or self.rejected else ""
        return f"{self.text}{what}{more}"


def uploaded(request: Request, answer: Answer) -> tuple[Request, Answer]:
    """Return a request and its answer with the name of an uploaded image in the place of its temporary file."""
    name = f"{UPLOADED}{Path(request.text).stem[:12]}"
    record = replace(answer.query, id=name, path="")
    option = ": --patient"  # of the command line
    notes = tuple(note.replace(Path(request.text).name, "the image").removesuffix(option) for note in answer.notes)
    return replace(request, text=name), replace(answer, query=record, notes=notes)
