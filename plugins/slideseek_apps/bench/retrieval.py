"""Run a retrieval cell: search with every test slide under the protocol's masks, and keep the hits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from slideseek.archive.slide_table import Column
from slideseek.errors import PluginError, SlideseekError
from slideseek.types import Hit, Mask, SlideRecord
from slideseek_apps.bench.cell_run import CellRun
from slideseek_apps.bench.encoding import EncodedSlides
from slideseek_apps.bench.folds import Fold, target_of
from slideseek_apps.bench.ranked_lists import QueryHits, RankedHit

BATCH_QUERIES = 128
"""Queries searched at once, to bound the memory an index takes for them."""

MaskKey: TypeAlias = tuple[str | None, str | None, str | None]
"""Patient to leave out, site to search within, and centre to leave out; None where it changes nothing."""


def retrieve(run: CellRun) -> list[QueryHits]:
    """Return the hits of every test slide, sorted by query id; a slide that could not be encoded finds nothing."""
    found: list[QueryHits] = []
    for fold, _, encoded in run:
        found.extend(_FilledIndex(run, fold, encoded).search([run.records[i] for i in fold.test]))
    return sorted(found, key=lambda query: query.query_id)


class _FilledIndex:
    """The candidates of one fold in an index whose answers are checked."""

    def __init__(self, run: CellRun, fold: Fold, encoded: EncodedSlides) -> None:
        self._run, self._codes = run, encoded.codes
        opaque = run.opaque.ids
        held = [run.records[i] for i in fold.among if run.records[i].id in encoded.codes]
        # In the order of opaque ids: the order of real ids may say something about labels.
        codes = [encoded.codes[record.id] for record in sorted(held, key=lambda record: opaque[record.id])]
        self._index = run.plan.make_index()
        self._index.add(codes)
        ids, stored = list(self._index.ids), self._index.nbytes
        self._index.owner.check_ids(ids, [code.slide_id for code in codes])
        try:
            if codes:  # negated distances pass every check of hits
                run.plan.make_index().probe_nearest(codes[:3])
        except PluginError as error:
            raise run.opaque.with_real_ids(error) from error
        run.costs.stored.append(stored / max(1, len(codes)))
        by_id = {opaque[record.id]: record for record in held}
        self._records = {name: by_id[name] for name in ids}
        records = list(self._records.values())
        self._patients, self._sites, self._centers, self._targets = (
            Column.of(values)
            for values in (
                [record.patient for record in records],
                [record.site for record in records],
                [record.center for record in records],
                [target_of(record, run.plan.protocol) for record in records],
            )
        )

    def search(self, queries: Sequence[SlideRecord]) -> Iterator[QueryHits]:
        """Search with some slides; those that share a mask are searched together where the index can."""
        groups: dict[MaskKey, list[SlideRecord]] = {}
        for query in queries:
            groups.setdefault(self._mask_key(query), []).append(query)
        for key, members in groups.items():
            among = self._mask(*key)
            encoded = [query for query in members if query.id in self._codes] if among.any() else []
            self._run.candidates.count([r.id for r, one in zip(self._records.values(), among) if one], len(encoded))
            hits: dict[str, list[Hit]] = {}
            for start in range(0, len(encoded), BATCH_QUERIES):
                hits |= self._hits(encoded[start : start + BATCH_QUERIES], among)
            yield from (self._ranked(query, hits.get(query.id, []), among) for query in members)

    def _mask_key(self, query: SlideRecord) -> MaskKey:
        """Return what decides the mask of a query: equal keys give equal masks.

        A patient or centre without a slide in the index leaves nothing out. So where test slides are searched among
        training slides, all queries of a site share a mask.
        """
        protocol = self._run.plan.protocol
        by_center = protocol.leave_out == "center" and query.center in self._centers.number_of
        return (
            query.patient if query.patient in self._patients.number_of else None,
            query.site if protocol.mode == "vertical" else None,
            query.center if by_center else None,
        )

    def _mask(self, patient: str | None, site: str | None, center: str | None) -> Mask:
        """Return bool (slides of the index,), true for candidates."""
        among: Mask = np.ones(len(self._records), np.bool_)
        if patient is not None:
            among &= ~self._patients.equal([patient])
        if site is not None:
            among &= self._sites.equal([site])
        if center is not None:
            among &= ~self._centers.equal([center])
        return among

    def _hits(self, queries: Sequence[SlideRecord], among: Mask) -> dict[str, list[Hit]]:
        """Return the checked hits by query id."""
        k, opaque = self._run.plan.protocol.k, self._run.opaque
        started = time.perf_counter()
        try:
            answers = self._index.search_many([self._codes[query.id] for query in queries], k, among.copy())
        except PluginError as error:
            raise opaque.with_real_ids(error) from error
        except (MemoryError, SlideseekError):
            return {query.id: self._search_one(query, among) for query in queries}  # one by one shows which fails
        self._run.costs.search += [(time.perf_counter() - started) / len(queries)] * len(queries)
        return {query.id: hits for query, hits in zip(queries, answers, strict=True)}

    def _search_one(self, query: SlideRecord, among: Mask) -> list[Hit]:
        started = time.perf_counter()
        try:
            hits = self._index.search(self._codes[query.id], self._run.plan.protocol.k, among.copy())
        except SlideseekError as error:
            raise self._run.opaque.with_real_ids(error) from error
        self._run.costs.search.append(time.perf_counter() - started)
        return hits

    def _ranked(self, query: SlideRecord, hits: Sequence[Hit], among: Mask) -> QueryHits:
        """Return the hits of a query with the real ids and targets of the slides found."""
        protocol = self._run.plan.protocol
        target = target_of(query, protocol)
        relevant = int((among & self._targets.equal([target])).sum())
        ranked = []
        for hit in hits:
            record = self._records[hit.slide_id]
            ranked.append(
                RankedHit(record.id, target_of(record, protocol), record.patient, record.center, float(hit.distance))
            )
        return QueryHits(query.id, target, tuple(ranked), query.patient, query.center, query.site, relevant)
