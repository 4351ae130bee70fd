"""Search an archive: a query's code against an index, under masks made from the catalogue."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.bench.measures import majority
from slideseek.building.index_store import open_index
from slideseek.building.ledger import Ledger
from slideseek.engine import Engine
from slideseek.errors import SlideseekError, UsageError
from slideseek.filters import Filter, parse_filter
from slideseek.plugins import nearest
from slideseek.queries import Query, QueryMaker
from slideseek.types import Hit, Mask, SlideRecord

Mode: TypeAlias = Literal["vertical", "horizontal"]


@dataclass(frozen=True, slots=True)
class Found:
    """A hit together with the record of its slide."""

    rank: int
    hit: Hit
    record: SlideRecord


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


class Searcher:
    """Search one archive with one engine; the index and the records are loaded once."""

    def __init__(self, archive: Archive, engine: Engine) -> None:
        self.archive = archive
        self.engine = engine
        self._notes: list[str] = []
        self.ledger = Ledger(archive, self._notes.append)
        self.ask = QueryMaker(archive, engine, self.ledger)
        opened = open_index(archive, engine, self.ledger)
        self.index = opened.index
        self._notes.extend(opened.notes)
        rows = list(archive.catalog.slides)
        self._records = {row.id: row.record for row in rows}
        self._fingerprints = {row.id: row.fingerprint for row in rows}
        if not len(self.index.ids):
            raise SlideseekError(f"engine {engine.name!r} has no indexed slide", "run 'slideseek build'")
        if behind := len(self._records) - len(self.index.ids):
            self._notes.append(f"{behind} slide(s) of the archive are not in the index: see 'slideseek status'")

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Free fields of the archive's slides, sorted."""
        return tuple(sorted({name for record in self._records.values() for name in record.fields}))

    def query(self, text: str, site: str = "", patient: str = "", mpp: float | None = None) -> Query:
        """Make a query of a slide in the archive (its id) or of a slide file, which is not added."""
        if text in self._records:
            return self.ask.stored(text)
        path = Path(text)
        if path.exists():
            return self.ask.file(path, site, patient, mpp)
        near = nearest(text, self._records)
        raise UsageError(
            f"{text!r} is neither a slide of this archive nor a file",
            f"did you mean {near!r}?" if near else "'slideseek status' lists the slides",
        )

    def search(
        self,
        query: Query,
        k: int = 5,
        mode: Mode = "horizontal",
        where: Sequence[str] = (),
        include_same_patient: bool = False,
    ) -> Answer:
        """Return the k slides nearest to a query.

        mode: `vertical` looks among slides of the query's site only. where: filters, all of which must hold.
        The query's slide, under whatever id, and its patient's other slides are left out unless
        `include_same_patient`.
        """
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}")
        if mode == "vertical" and not query.record.site:
            raise UsageError(
                f"a vertical search needs the site of {query.record.id!r}, which is unknown",
                "pass --site, add a site column to the manifest, or search with --horizontal",
            )
        filters = [parse_filter(text, self.fields) for text in where]
        started = time.perf_counter()
        among = self._mask(query, mode, filters, include_same_patient)
        hits = self.index.search(query.code, k, among)
        milliseconds = 1000 * (time.perf_counter() - started)
        found = [Found(rank, hit, self._records[hit.slide_id]) for rank, hit in enumerate(hits, start=1)]
        votes: dict[str, tuple[str, int]] = {}
        for name in ("site", "label"):
            labels = [getattr(f.record, name) for f in found]
            if winner := majority(labels):
                votes[name] = winner, labels.count(winner)
        notes = (*self._notes, *query.notes)
        return Answer(query.record, self.engine.name, mode, found, votes, int(among.sum()), milliseconds, notes)

    def _mask(self, query: Query, mode: Mode, filters: Sequence[Filter], include_same_patient: bool) -> Mask:
        same_content = {i for i, name in self._fingerprints.items() if name in query.fingerprints}
        patients = {query.record.patient, *(self._records[i].patient for i in same_content)} - {""}

        def passes(record: SlideRecord) -> bool:
            if mode == "vertical" and record.site != query.record.site:
                return False
            same = record.id in same_content or record.patient in patients
            return (include_same_patient or not same) and all(condition(record) for condition in filters)

        return np.fromiter((passes(self._records[i]) for i in self.index.ids), dtype=bool, count=len(self.index.ids))
