"""Run a retrieval cell: every test slide asks, under the protocol's masks, and the hits are kept."""

from __future__ import annotations

import time

import numpy as np

from slideseek.errors import PluginError, one_line
from slideseek.types import Hit, Mask, SlideRecord
from slideseek_apps.bench.cell_run import CellRun
from slideseek_apps.bench.encoding import Coded
from slideseek_apps.bench.folds import Fold, target_of
from slideseek_apps.bench.plugin_output import check_hits, check_ids
from slideseek_apps.bench.protocol import Protocol
from slideseek_apps.bench.ranked_lists import QueryHits, RankedHit


def retrieve(run: CellRun) -> list[QueryHits]:
    """Return what every test slide finds, by query id; a slide that could not be encoded finds nothing."""
    found: list[QueryHits] = []
    for fold, _, coded in run:
        shelf = _Shelf(run, fold, coded)
        found.extend(shelf.ask(run.records[i]) for i in fold.test)
    return sorted(found, key=lambda query: query.query_id)


class _Shelf:
    """The slides looked among in one fold, in an index that is not trusted."""

    def __init__(self, run: CellRun, fold: Fold, coded: Coded) -> None:
        self._run, self._coded = run, coded
        plan, names = run.plan, run.opaque.names
        self._owner = plan.variant.owner("index", plan.variant.index_config(plan.spec).use)
        held = [run.records[i] for i in fold.among if run.records[i].id in coded.codes]
        # In the order of opaque ids: an index that keeps the order of what it is given learns nothing from it.
        codes = [coded.codes[record.id] for record in sorted(held, key=lambda record: names[record.id])]
        self._index = plan.variant.make_index(plan.spec)
        try:
            self._index.add(codes)
            ids = list(self._index.ids)
            stored = self._index.nbytes
        except Exception as error:  # whatever a plugin raises is told as the plugin's
            raise PluginError(f"{self._owner} crashed in add ({one_line(error)})", "mend the plugin") from error
        check_ids(ids, [code.slide_id for code in codes], self._owner)
        run.costs.stored.append(stored / max(1, len(codes)))
        by_name = {names[record.id]: record for record in held}
        self._records = {name: by_name[name] for name in ids}
        self._rows = {name: row for row, name in enumerate(ids)}
        records = list(self._records.values())
        self._patients, self._sites, self._centers, self._targets = (
            np.array(values, dtype=np.str_)
            for values in (
                [record.patient for record in records],
                [record.site for record in records],
                [record.center for record in records],
                [target_of(record, plan.protocol) for record in records],
            )
        )

    def ask(self, query: SlideRecord) -> QueryHits:
        """Search with one slide."""
        protocol = self._run.plan.protocol
        among = self._mask(query, protocol)
        hits = self._search(query, among, protocol.k) if query.id in self._coded.codes and among.any() else []
        target = target_of(query, protocol)
        relevant = int((among & (self._targets == target)).sum())
        ranked = []
        for hit in hits:
            record = self._records[hit.slide_id]
            ranked.append(
                RankedHit(record.id, target_of(record, protocol), record.patient, record.center, float(hit.distance))
            )
        return QueryHits(query.id, target, tuple(ranked), query.patient, query.center, query.site, relevant)

    def _mask(self, query: SlideRecord, protocol: Protocol) -> Mask:
        """Return bool (slides of the index,): other patients, in vertical search of the same site, and so on."""
        among: Mask = self._patients != query.patient
        if protocol.mode == "vertical":
            among &= self._sites == query.site
        if protocol.leave_out == "center":
            among &= self._centers != query.center
        return among

    def _search(self, query: SlideRecord, among: Mask, k: int) -> list[Hit]:
        code = self._coded.codes[query.id]
        started = time.perf_counter()
        try:
            answer = self._index.search(code, k, among.copy())
        except Exception as error:  # whatever a plugin raises is told as the plugin's
            cause = f"{self._owner} crashed in search for {query.id!r} ({one_line(error)})"
            raise PluginError(cause, "mend the plugin") from error
        self._run.costs.search.append(time.perf_counter() - started)
        try:
            return check_hits(answer, self._rows, among, k, self._owner)
        except PluginError as error:
            raise self._run.opaque.named(error) from error
