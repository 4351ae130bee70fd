"""Search an archive: a query's code against an index, under masks made from the catalogue."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.models import load_model
from slideseek.archive.payloads import unpack_code
from slideseek.bench.measures import majority
from slideseek.building.index_store import open_index
from slideseek.building.ledger import Ledger
from slideseek.engine import Engine, make_engine
from slideseek.errors import SlideseekError, UsageError
from slideseek.filters import Filter, parse_filter
from slideseek.plugins import nearest
from slideseek.types import Code, Hit, Mask, SlideRecord

Mode: TypeAlias = Literal["vertical", "horizontal"]


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for: a code and what is known about its slide.

    fingerprint: names the slide's content, so that the slide is known under any other id too.
    """

    record: SlideRecord
    code: Code
    fingerprint: str
    notes: tuple[str, ...] = ()


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
        self._ledger = Ledger(archive, self._notes.append)
        opened = open_index(archive, engine, self._ledger)
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
            return self.stored(text)
        path = Path(text)
        if path.exists():
            return self.file(path, site, patient, mpp)
        near = nearest(text, self._records)
        raise UsageError(
            f"{text!r} is neither a slide of this archive nor a file",
            f"did you mean {near!r}?" if near else "'slideseek status' lists the slides",
        )

    def stored(self, slide_id: str) -> Query:
        """Make a query of a slide in the archive from its stored code."""
        row = self.archive.catalog.slides.get(slide_id)
        record = row and self._ledger.record(self.engine, "encode", row)
        payload = record and self.archive.catalog.payload(record.key)
        if row is None or not payload:
            raise SlideseekError(
                f"slide {slide_id!r} has no code of engine {self.engine.name!r}",
                "run 'slideseek build'; 'slideseek status' tells why it failed",
            )
        return Query(row.record, unpack_code(payload, slide_id), row.fingerprint)

    def file(self, path: Path, site: str = "", patient: str = "", mpp: float | None = None) -> Query:
        """Make a query of a slide file: selected, featurized and encoded now, and not kept.

        A file whose content is in the archive is that slide: its stored code and record are used.
        """
        # Reading slides needs libraries that searching stored codes does not: they load when a file is asked about.
        from slideseek.slides.identity import fingerprint
        from slideseek.slides.patch_images import read_mpp
        from slideseek.slides.reader import open_slide
        from slideseek.slides.resolution import finer_than_scanned

        content = fingerprint(path)
        twins = self.archive.catalog.slides.by_fingerprint(content)
        for twin in twins:
            if self._ledger.done(self.engine, "encode", twin) and mpp in (None, twin.record.mpp):
                note = f"{path.name} is slide {twin.id!r} of the archive"
                return replace(self.stored(twin.id), notes=(note,))
        self._check_components()
        with open_slide(path, mpp=mpp) as slide:
            patches = self.engine.select(slide)
            if not len(patches):
                raise SlideseekError(f"no tissue found in {path.name}", "look at it with 'slideseek inspect'")
            bag = self.engine.featurize(slide, patches, site)
            self._load_model()
            notes = [*slide.notes, finer_than_scanned(slide.mpp, read_mpp(patches, self.engine.read_side(patches)))]
            code = self.engine.encode(bag)
        if not patient and not twins:
            notes.append(f"the patient of {path.name} is unknown, so that patient's slides are not left out: --patient")
        # The path is no slide's id, so a slide of the archive that shares the file's stem is not left out.
        record = SlideRecord(str(path), str(path), patient=patient, site=site)
        return Query(record, code, content, tuple(note for note in notes if note))

    def _check_components(self) -> None:
        """See that the components still are what the stored codes were made with."""
        now = make_engine(self.engine.config, self.engine.registry)
        if now.resolved != self.engine.resolved:
            raise SlideseekError(
                f"the components of engine {self.engine.name!r} have changed since it was built",
                "run 'slideseek build', then search again",
            )
        self.engine = now

    def _load_model(self) -> None:
        """Restore the fitted encoder; searching with stored codes does not need it."""
        if (encoder := self.engine.trainable) is None:
            return
        model = self.archive.catalog.model(self.engine.encoder_settings)
        if model is None:
            raise SlideseekError(f"engine {self.engine.name!r} is not fitted yet", "run 'slideseek build'")
        load_model(self.archive.root, encoder, model)

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
        same_content = {i for i, name in self._fingerprints.items() if name == query.fingerprint}
        patients = {query.record.patient, *(self._records[i].patient for i in same_content)} - {""}

        def passes(record: SlideRecord) -> bool:
            if mode == "vertical" and record.site != query.record.site:
                return False
            same = record.id in same_content or record.patient in patients
            return (include_same_patient or not same) and all(condition(record) for condition in filters)

        return np.fromiter((passes(self._records[i]) for i in self.index.ids), dtype=bool, count=len(self.index.ids))
