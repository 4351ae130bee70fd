"""Make reports of logged queries and of new ones: hits as they were answered, with evidence where it still holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slideseek.archive.archive import Archive
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.indexing.index_store import open_engine
from slideseek.plugins import Registry, load_registry
from slideseek.searching.evidence import Explainer
from slideseek.searching.queries import Query
from slideseek.searching.query_log import LogEntry
from slideseek.searching.replay import changes_since
from slideseek.searching.request import Request
from slideseek.searching.searcher import Answer, Found, Searcher
from slideseek.types import Hit, SlideRecord
from slideseek_apps.bench.measures import majority
from slideseek_apps.reports.assemble import Reported, search_report
from slideseek_apps.reports.page import Report
from slideseek_apps.reports.sides import Explained, explained


@dataclass
class Reporter:
    """Gather answers of one archive for a page."""

    archive: Archive
    with_evidence: bool = True
    _searchers: dict[str, Searcher] = field(default_factory=dict)
    _registry: Registry = field(default_factory=load_registry)

    def logged(self, entry: LogEntry) -> Reported:
        """Return a query of the log. Hits are those of the log; evidence is given while they still are the answer."""
        request = Request.unpack(entry.request)
        searcher = self._searcher(entry.engine)
        found = [
            Found(rank, Hit(str(slide_id), float(distance)), self._record(str(slide_id)))
            for rank, (slide_id, distance) in enumerate(entry.answer["hits"], start=1)
        ]
        who = f"query {entry.number}, asked {entry.asked.replace('T', ' ')} by {entry.who}; {request.settings()}"
        notes = list(entry.answer["notes"])
        try:
            query = request.query(searcher)
            now = request.answer(searcher, query)
        except SlideseekError as error:
            answer = self._answer(self._record(str(entry.answer["query"])), entry, request, found)
            notes.append(f"the query cannot be asked again: {error.cause}")
            return Reported(replace(answer, notes=tuple(notes)), asked=who)
        answer = self._answer(query.record, entry, request, found)
        if [one.hit for one in now.found] != [one.hit for one in found]:
            changed = "; ".join(changes_since(entry, searcher, query, now)) or "for no recorded reason"
            notes.append(f"asked now, the hits would be others, so no evidence is shown ({changed})")
            return Reported(replace(answer, notes=tuple(notes)), _shown(query), asked=who)
        return self.complete(replace(answer, notes=tuple(notes)), query, request, who)

    def asked(self, request: Request, engine: str) -> Reported:
        """Ask now and return the answer."""
        searcher = self._searcher(engine)
        query = request.query(searcher)
        return self.complete(request.answer(searcher, query), query, request)

    def page(self, reported: Sequence[Reported], title: str) -> Report:
        """Return the page of some answers."""
        engines: list[Engine] = [
            self._searcher(name).engine for name in dict.fromkeys(r.answer.engine for r in reported)
        ]
        return search_report(self.archive, engines, reported, title)

    def complete(self, answer: Answer, query: Query, request: Request, asked: str = "") -> Reported:
        """Return an answer with its evidence; what the encoder cannot explain is a note."""
        evidence: dict[str, Explained] = {}
        notes = list(answer.notes)
        if self.with_evidence:
            explainer = Explainer(self._searcher(answer.engine))
            try:
                for found in answer.found:
                    why = explainer.explain(query, found.hit.slide_id)
                    evidence[found.hit.slide_id] = explained(self.archive, query, found.record, why)
            except SlideseekError as error:
                evidence = {}
                notes.append(f"no evidence: {error.cause}")
            if evidence and (request.relevant or request.rejected):
                notes.append("evidence is about the query alone; distances also count the marked slides")
        return Reported(replace(answer, notes=tuple(notes)), _shown(query), evidence, asked or request.settings())

    def _answer(self, query: SlideRecord, entry: LogEntry, request: Request, found: list[Found]) -> Answer:
        votes: dict[str, tuple[str, int]] = {}
        for name in ("site", "label"):
            labels = [getattr(one.record, name) for one in found]
            if winner := majority(labels):
                votes[name] = winner, labels.count(winner)
        log = entry.answer
        return Answer(query, entry.engine, request.mode, found, votes, log["candidates"], log["milliseconds"], ())

    def _record(self, slide_id: str) -> SlideRecord:
        row = self.archive.catalog.slides.get(slide_id)
        return row.record if row else SlideRecord(slide_id, slide_id)

    def _searcher(self, engine: str) -> Searcher:
        if engine not in self._searchers:
            config = self.archive.config.engine(engine)
            self._searchers[engine] = Searcher(self.archive, open_engine(self.archive, config, self._registry))
        return self._searchers[engine]


def _shown(query: Query) -> Query | None:
    """Return the query if its own squares can be drawn."""
    try:
        query.fields()
    except SlideseekError:
        return None
    return query
