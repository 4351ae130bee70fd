"""Search an archive: a query's code against an index, under masks made from the catalogue."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.engine import Engine
from slideseek.errors import SlideseekError, UsageError
from slideseek.indexing.live_index import LiveIndex
from slideseek.indexing.stage_results import Ledger
from slideseek.interfaces import Index
from slideseek.searching.filters import Filter, parse_filter
from slideseek.searching.queries import Query, QueryMaker
from slideseek.types import Hit, Mask, SlideRecord
from slideseek_apps.bench.measures import majority

Mode: TypeAlias = Literal["vertical", "horizontal"]


@dataclass(frozen=True, slots=True)
class Found:
    """A hit together with the record of its slide."""

    rank: int
    hit: Hit
    record: SlideRecord


@dataclass(frozen=True, slots=True)
class Confidence:
    """How far the hits agree with what they voted for.

    agreeing: hits that carry the voted value. labelled: hits that carry any value. hits: all of them.
    """

    agreeing: int
    labelled: int
    hits: int

    @property
    def share(self) -> float:
        """Share of all hits that agree, 0 to 1; a hit whose value is unknown does not agree."""
        return self.agreeing / self.hits if self.hits else 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one search.

    votes: for site and label, the majority of the hits and how many of them carry it. candidates: slides that
    passed the masks. milliseconds: wall time of the search in the index, masks included.
    """

    query: SlideRecord
    engine: str
    mode: Mode
    found: Sequence[Found]
    votes: Mapping[str, tuple[str, int]]
    candidates: int
    milliseconds: float
    notes: tuple[str, ...]

    def confidence(self, name: str) -> Confidence:
        """Return how far the hits agree with their vote for `name`, site or label."""
        labelled = sum(bool(getattr(found.record, name)) for found in self.found)
        return Confidence(self.votes[name][1] if name in self.votes else 0, labelled, len(self.found))


class Searcher:
    """Search one archive with one engine; the index is opened once and follows the archive from then on."""

    def __init__(self, archive: Archive, engine: Engine) -> None:
        self.archive = archive
        self.engine = engine
        self._notes: list[str] = []
        self.ledger = Ledger(archive, self._notes.append)
        self.ask = QueryMaker(archive, engine, self.ledger)
        self._slides = archive.catalog.slides
        self._live = LiveIndex(archive, engine, self.ledger)
        if not len(self.index.ids):
            raise SlideseekError(f"engine {engine.name!r} has no indexed slide", "run 'slideseek build'")

    @property
    def index(self) -> Index:
        """The index as it is open now; a search first brings it up to date with the catalogue."""
        return self._live.index

    @property
    def fields(self) -> tuple[str, ...]:
        """Free fields of the archive's slides, sorted."""
        return self._live.columns.free_names

    def query(self, text: str, site: str = "", patient: str = "", mpp: float | None = None, center: str = "") -> Query:
        """Make a query of a slide in the archive (its id) or of a slide file, which is not added."""
        if self._slides.get(text) is not None:
            return self.ask.stored(text)
        path = Path(text)
        if path.exists():
            return self.ask.file(path, site, patient, mpp, center)
        raise self.ask.unknown(text)

    def search(
        self,
        query: Query,
        k: int = 5,
        mode: Mode = "horizontal",
        where: Sequence[str] = (),
        include_same_patient: bool = False,
        exclude_center: bool = False,
    ) -> Answer:
        """Return the k slides nearest to a query.

        mode: `vertical` looks among slides of the query's site only. where: filters, all of which must hold.
        The query's slide, under whatever id, and its patient's other slides are left out unless
        `include_same_patient`; with `exclude_center` all slides of its centre are.
        """
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}")
        if mode == "vertical" and not query.record.site:
            raise UsageError(
                f"a vertical search needs the site of {query.record.id!r}, which is unknown",
                "pass --site, add a site column to the manifest, or search with --horizontal",
            )
        known = self.fields if where else ()
        filters = [parse_filter(text, known) for text in where]
        started = time.perf_counter()
        self._live.refresh()
        among = self._mask(query, mode, filters, include_same_patient)
        notes = [*self._notes, *self._live.notes]
        if behind := self._live.slides - len(self.index.ids):
            notes.append(f"{behind} slide(s) of the archive are not in the index: see 'slideseek status'")
        if exclude_center:
            among &= self._of_other_centers(query)
            if unknown := int(np.count_nonzero(among & self._live.columns.among("center", [""]))):
                notes.append(f"the centre of {unknown} slide(s) is unknown: they are not left out")
        if mode == "horizontal" and query.code.space:
            notes.append(
                f"codes of engine {self.engine.name!r} are comparable within a site only: no slide of another site than"
                f" {query.record.site!r} can be a hit, and the vote for the site says nothing"
            )
        hits = self.index.search(query.code, k, among)
        milliseconds = 1000 * (time.perf_counter() - started)
        rows = [(hit, row.record) for hit in hits if (row := self._slides.get(hit.slide_id)) is not None]
        found = [Found(rank, hit, record) for rank, (hit, record) in enumerate(rows, start=1)]
        votes: dict[str, tuple[str, int]] = {}
        for name in ("site", "label"):
            labels = [getattr(f.record, name) for f in found]
            if winner := majority(labels):
                votes[name] = winner, labels.count(winner)
        notes.extend(query.notes)
        return Answer(query.record, self.engine.name, mode, found, votes, int(among.sum()), milliseconds, tuple(notes))

    def _mask(self, query: Query, mode: Mode, filters: Sequence[Filter], include_same_patient: bool) -> Mask:
        columns = self._live.columns
        among: Mask = np.ones(len(self.index.ids), dtype=np.bool_)
        if mode == "vertical":
            among &= columns.among("site", [query.record.site])
        if not include_same_patient:
            own = self._same_content(query)
            patients = {query.record.patient, *(record.patient for record in own)} - {""}
            among &= ~columns.among("patient", patients) & ~columns.those(record.id for record in own)
        for condition in filters:
            among &= columns.passing(condition.field, condition.free, condition)
        return among

    def _of_other_centers(self, query: Query) -> Mask:
        """Say which slides of the index are not of the query's centre: bool (n,)."""
        centers = {query.record.center, *(record.center for record in self._same_content(query))} - {""}
        if not centers:
            raise UsageError(
                f"the centre of {query.record.id!r} is unknown, so its slides cannot be left out",
                "pass --center with a query file, or add the slide again with a manifest that has a center column",
            )
        return ~self._live.columns.among("center", centers)

    def _same_content(self, query: Query) -> list[SlideRecord]:
        """Return the slides of the archive that are the query's, under whatever id."""
        return [row.record for name in query.fingerprints for row in self._slides.by_fingerprint(name)]
