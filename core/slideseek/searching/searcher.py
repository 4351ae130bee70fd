"""Search an archive: a query's code against an index, under masks made from the catalogue."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.file_changes import named
from slideseek.archive.slide_table import SlideRow, file_states
from slideseek.boundary import CheckedIndex
from slideseek.engine import Engine
from slideseek.errors import ParameterError, SlideseekError, UsageError
from slideseek.indexing.live_index import Candidates, LiveIndex, changed_makers, open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import BatchIndex, StatesExactness, implements
from slideseek.plugins import Registry
from slideseek.searching.filters import parse_filter
from slideseek.searching.queries import Query, QueryMaker
from slideseek.searching.reranking import Tuned, reranked, tune, unit_of
from slideseek.searching.votes import Vote, vote
from slideseek.slides.remote_path import located
from slideseek.types import Filter, Hit, Mask, SlideRecord

Mode: TypeAlias = Literal["vertical", "horizontal"]

_ADD_AGAIN = "add the slide again with a manifest that"


MANY_EQUAL = 3
"""Hits at one distance that are worth a note."""


@dataclass(frozen=True, slots=True)
class Found:
    """A hit together with the record of its slide."""

    rank: int
    hit: Hit
    record: SlideRecord


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one search.

    unit: unit of the distances, "" if they have none. votes: the vote of the hits by field (site and label).
    candidates: number of slides that passed the masks. milliseconds: wall time of the index search, masks included.
    """

    query: SlideRecord
    engine: str
    unit: str
    mode: Mode
    found: Sequence[Found]
    votes: Mapping[str, Vote]
    candidates: int
    milliseconds: float
    notes: tuple[str, ...]

    def agrees(self, found: Found) -> bool | None:
        """Return whether a hit has the query's diagnosis; None if either is unknown."""
        mine, other = self.query.label, found.record.label
        return mine == other if mine and other else None


class Searcher:
    """Search one archive with one engine; the index is opened once and follows the archive from then on."""

    def __init__(self, archive: Archive, engine: Engine) -> None:
        self.archive = archive
        self.engine = engine
        self._notes: list[str] = []
        self.stages = StageCache(archive, self._notes.append)
        self.queries = QueryMaker(archive, engine, self.stages)
        self._slides = archive.catalog.slides
        self._live = LiveIndex(archive, engine, self.stages)
        self._tuned: tuple[tuple[str, ...], CheckedIndex, Tuned] | None = None
        if not len(self.index.ids):
            raise self._empty()

    def _empty(self) -> SlideseekError:
        """Return the error for an index without slides: nothing was built, or by other code than is installed now."""
        if changes := changed_makers(self.archive, self.engine):
            cause = "; ".join(changes.values())
            return SlideseekError(
                f"engine {self.engine.name!r}: {cause}; codes of the two must not be mixed",
                "run 'slideseek build' to compute them again, or go back to the former version",
            )
        return SlideseekError(f"engine {self.engine.name!r} has no indexed slides", "run 'slideseek build'")

    @classmethod
    def open(cls, archive: Archive, engine: str | None = None, registry: Registry | None = None) -> Searcher:
        """Open an engine as last built; by default the first one configured."""
        config = archive.config.engine(engine)
        return cls(archive, open_engine(archive, config, archive.registry() if registry is None else registry))

    @property
    def index(self) -> CheckedIndex:
        """The currently open index; a search first brings it up to date with the catalogue."""
        return self._live.index

    @property
    def fields(self) -> tuple[str, ...]:
        """Free fields of the archive's slides, sorted."""
        return self._live.columns.free_names

    def query(
        self, text: str, *, site: str = "", patient: str = "", center: str = "", mpp: float | None = None
    ) -> Query:
        """Create a query from a slide of the archive (its id) or from a slide file, which is not added."""
        if self._slides.get(text) is not None:
            return self.queries.stored(text)
        path = located(text)
        if path.exists():
            return self.queries.file(path, site=site, patient=patient, center=center, mpp=mpp)
        raise self.queries.unknown(text)

    def search(
        self,
        query: Query,
        k: int = 5,
        mode: Mode = "horizontal",
        where: Sequence[str] = (),
        include_same_patient: bool = False,
        exclude_center: bool = False,
        options: Sequence[str] = (),
        rerank: bool = True,
    ) -> Answer:
        """Return the k slides nearest to a query.

        mode: `vertical` searches only slides of the query's site. where: filters, all of which must hold.
        The query's slide, under any id, and its patient's other slides are excluded unless `include_same_patient`;
        with `exclude_center` all slides of its centre are excluded too. Slides of another stain than the query's are
        excluded unless `Query.any_stain` is set or a filter is about the stain. options: `name=value` for this search,
        of the index or the reranker. rerank: whether to use the engine's reranker, if it has one.
        """
        with self.archive.catalog.snapshot():  # hits and their records are of one version of the archive
            return self._search(query, k, mode, where, include_same_patient, exclude_center, options, rerank)

    def _search(
        self,
        query: Query,
        k: int,
        mode: Mode,
        where: Sequence[str],
        include_same_patient: bool,
        exclude_center: bool,
        options: Sequence[str],
        rerank: bool,
    ) -> Answer:
        query, filters = self._checked(query, k, mode, where)
        started = time.perf_counter()
        self._live.refresh()
        tuned = self.tuned(options)  # of the index as it is now
        shared = self._shared(query, mode, filters, exclude_center)
        candidates = self._live.candidates([*shared, *(() if include_same_patient else self._others(query))])
        index, reranker = tuned.index or self.index, tuned.reranker if rerank else None
        depth = k
        if reranker is not None:
            depth = max(k, min(self.engine.owner("reranker").read_count(reranker, "depth"), len(index.ids)))
        hits = candidates.search(index, query.code, depth)
        if reranker is not None:
            query = replace(query, notes=(*query.notes, self._reranked_note(len(hits), candidates.count(index))))
            hits = reranked(self.stages, self.engine, reranker, query.bag(), hits)[:k]
        milliseconds = 1000 * (time.perf_counter() - started)
        unit = self.engine.spec.unit if reranker is None else unit_of(reranker)
        return self._answer(query, mode, hits, candidates, exclude_center, milliseconds, unit)

    def search_many(
        self,
        queries: Sequence[Query],
        k: int = 5,
        mode: Mode = "horizontal",
        where: Sequence[str] = (),
        exclude_center: bool = False,
        options: Sequence[str] = (),
    ) -> list[Answer]:
        """Return `search` for every query, with patients excluded, in one batch if the index can.

        Queries with the same candidates are searched together. Each gets extra hits, as many as the largest number of
        slides any of them excludes; dropping the excluded ones then leaves exactly the k nearest of the rest.
        """
        index = self.index
        # Only an exact index finds the same hits among more: an approximate one may miss others then.
        exact = implements(index.inner, StatesExactness) and index.owner.read(index.inner, "exact")
        if not implements(index.inner, BatchIndex) or not exact or self.engine.config.reranker or options:
            alone = {"exclude_center": exclude_center, "options": options}
            return [self.search(query, k, mode, where, **alone) for query in queries]  # type: ignore[arg-type]
        self._live.refresh()
        groups: dict[tuple[Filter, ...], list[int]] = {}
        shared: list[list[Filter]] = []
        queries = list(queries)
        for place, one in enumerate(queries):
            query, filters = self._checked(one, k, mode, where)
            queries[place] = query
            shared.append(self._shared(query, mode, filters, exclude_center))
            groups.setdefault(tuple(shared[-1]), []).append(place)
        answers: dict[int, Answer] = {}
        for together in groups.values():
            among = self._live.candidates(shared[together[0]]).mask
            every = [self._live.candidates([*shared[place], *self._others(queries[place])]) for place in together]
            most = max(int(np.count_nonzero(among & ~one.mask)) for one in every)
            started = time.perf_counter()
            codes = [queries[place].code for place in together]
            found = self.index.search_many(codes, k + most, None if among.all() else among)
            milliseconds = 1000 * (time.perf_counter() - started) / len(together)
            for place, hits, passing in zip(together, found, every):
                left_out = {self.index.ids[row] for row in np.flatnonzero(among & ~passing.mask).tolist()}
                kept = [hit for hit in hits if hit.slide_id not in left_out][:k]
                answers[place] = self._answer(
                    queries[place], mode, kept, passing, exclude_center, milliseconds, self.engine.spec.unit
                )
        return [answers[place] for place in range(len(queries))]

    def distance(self, query: Query, slide_id: str, options: Sequence[str] = ()) -> float | None:
        """Return the distance of one slide, as a search shows it; None if it cannot be compared."""
        # Not cached between calls: the index follows the archive.
        tuned = self.tuned(options)
        only = self._live.candidates([Filter("id", False, "=", (slide_id,))])
        hits = only.search(tuned.index or self.index, query.code, 1)
        if hits and tuned.reranker is not None:
            hits = reranked(self.stages, self.engine, tuned.reranker, query.bag(), hits)
        return hits[0].distance if hits else None

    def tuned(self, options: Sequence[str]) -> Tuned:
        """Return the index and the reranker with options given for one search."""
        if not options:
            return Tuned(None, self.engine.reranker)
        given, index, kept = tuple(options), self.index, self._tuned
        if kept is None or kept[:2] != (given, index):  # kept, since an index may prepare itself when searched
            kept = self._tuned = given, index, tune(index, self.engine.reranker, given, self.engine.owner)
        return kept[2]

    def _reranked_note(self, compared: int, candidates: int) -> str:
        name = self.engine.config.component("reranker").use
        which = "all" if compared == candidates else "none of" if not compared else f"the {compared} nearest of"
        return f"{which} {candidates} candidates were re-ranked by {name!r}"

    def candidates(self, query: Query) -> Mask:
        """Return which slides of the index a search with a query may find if nothing is filtered: bool (n,)."""
        checked, _ = self._checked(query, 1, "horizontal", ())
        return self._live.candidates([*self._shared(checked, "horizontal", (), False), *self._others(query)]).mask

    def _others(self, query: Query) -> list[Filter]:
        """Return the conditions that a slide is not the query's own, under any id, and not its patient's."""
        own = self._same_content(query)
        patients = {query.record.patient, *(row.record.patient for row in own)} - {""}
        excluded = ("patient", patients), ("id", {row.id for row in own})
        return [Filter(name, False, "not in", tuple(sorted(values))) for name, values in excluded if values]

    def _checked(self, query: Query, k: int, mode: Mode, where: Sequence[str]) -> tuple[Query, list[Filter]]:
        """Raise an error for a search that is not possible; return the query, of any stain if filtered, and filters."""
        if mode == "vertical" and not query.record.site:
            cause = f"a vertical search needs the site of {query.record.id!r}, which is unknown"
            if self._slides.get(query.record.id) is None:
                raise ParameterError("site", cause, "search the whole archive")
            raise UsageError(cause, f"{_ADD_AGAIN} has a primary_site column, or search the whole archive")
        known = self.fields if where else ()
        filters = [parse_filter(text, known) for text in where]
        return replace(query, any_stain=query.any_stain or any(one.field == "stain" for one in filters)), filters

    def _shared(self, query: Query, mode: Mode, filters: Sequence[Filter], exclude_center: bool) -> list[Filter]:
        """Return what a slide has to pass to be a candidate, before patients are excluded."""
        damaged = self._live.damaged
        whole = [Filter("id", False, "not in", tuple(damaged))] if damaged else []
        site = [Filter("site", False, "=", (query.record.site,))] if mode == "vertical" else []
        center = [self._of_other_centers(query)] if exclude_center else []
        return [*whole, *site, *filters, *center, *_of_stain("in", query)]

    def _answer(
        self,
        query: Query,
        mode: Mode,
        hits: Sequence[Hit],
        among: Candidates,
        exclude_center: bool,
        milliseconds: float,
        unit: str,
    ) -> Answer:
        rows = [(hit, row) for hit in hits if (row := self._slides.get(hit.slide_id)) is not None]
        found = [Found(rank, hit, row.record) for rank, (hit, row) in enumerate(rows, start=1)]
        return Answer(
            query.record,
            self.engine.name,
            unit,
            mode,
            found,
            vote(one.record for one in found),
            among.count(self.index),
            milliseconds,
            (
                *self._answer_notes(query, mode, among, exclude_center),
                *_equal_note(hits),
                *self._file_notes(query, rows),
            ),
        )

    def _answer_notes(self, query: Query, mode: Mode, among: Candidates, exclude_center: bool) -> list[str]:
        """Return the notes on an answer."""
        notes = [*self._notes, *self._live.notes]
        if damaged := self._live.damaged:
            notes.append(
                f"the record of {', '.join(map(repr, damaged[:5]))}{' and more' if len(damaged) > 5 else ''} in the"
                " catalogue is damaged, and the slide was left out: add it again with its manifest"
            )
        if behind := self._live.slides - len(self.index.ids):
            notes.append(f"{behind} slide(s) of the archive are not in the index: see 'slideseek status'")
        if exclude_center and (unknown := among.count(self.index, Filter("center", False, "=", ("",)))):
            notes.append(f"the centre of {unknown} slide(s) is unknown: they are not excluded")
        if query.stain and (others := self._live.candidates(_of_stain("not in", query)).count(self.index)):
            but = f"{others} of other stains are left out unless any stain is asked for"
            notes.append(f"only slides of the query's stain ({query.stain}) were searched: {but}")
        if mode == "horizontal" and query.code.space:
            notes.append(
                f"codes of engine {self.engine.name!r} are comparable only within a site: all hits are of"
                f" {query.record.site!r}, and the vote for the site means nothing"
            )
        return [*notes, *query.notes]

    def _file_notes(self, query: Query, hits: Sequence[tuple[Hit, SlideRow]]) -> list[str]:
        """Return notes on slides whose file is no longer what was searched, and on hits that may be the query."""
        notes, root, mine = [], self.archive.root, {query.record.patient, ""}
        rows = {row.id: row for row in (*self._same_content(query), *(row for _, row in hits))}
        states = file_states(root, (row.file_facts for row in rows.values() if row.record.path))
        if away := [slide_id for slide_id, state in states.items() if state == "unreachable"]:
            notes.append(f"{named(away)} could not be looked up: what was added may have changed since")
        if changed := [slide_id for slide_id, state in states.items() if state == "changed"]:
            notes.append(
                f"the file of {named(changed)} has another size or date than when it was added, so this answer may"
                " be about another picture: run 'slideseek build'"
            )
        same = [row.id for hit, row in hits if hit.distance == 0 and row.record.patient not in mine]
        if same and query.record.patient and query.source is not None:
            notes.append(
                f"{', '.join(same)} has the same code as the query and another patient: if it is the same tissue, one"
                " of the patients is wrong ('slideseek duplicates' compares the pictures)"
            )
        return notes

    def _of_other_centers(self, query: Query) -> Filter:
        """Return the condition that a slide is not of the query's centre."""
        centers = {query.record.center, *(row.record.center for row in self._same_content(query))} - {""}
        if not centers:
            cause = f"the centre of {query.record.id!r} is unknown, so its slides cannot be excluded"
            if self._slides.get(query.record.id) is None:
                raise ParameterError("center", cause)
            raise UsageError(cause, f"{_ADD_AGAIN} has a center column")
        return Filter("center", False, "not in", tuple(sorted(centers)))

    def _same_content(self, query: Query) -> list[SlideRow]:
        """Return the slides of the archive that are the query's own, under any id."""
        return [row for name in query.fingerprints for row in self._slides.by_fingerprint(name)]


def _of_stain(sign: str, query: Query) -> list[Filter]:
    """Return the condition that a slide has the query's stain, or none that is known; with `not in`, another one."""
    return [Filter("stain", True, sign, (query.stain, ""))] if query.stain else []


def _equal_note(hits: Sequence[Hit]) -> tuple[str, ...]:
    """Return a note if the distances say nothing about the order of the hits."""
    if len(hits) < MANY_EQUAL or hits[0].distance < hits[-1].distance:
        return ()
    return (f"all {len(hits)} hits are equally far: they are in the order of their ids, which means nothing",)
