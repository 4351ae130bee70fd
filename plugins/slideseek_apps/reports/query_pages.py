"""Make report pages of logged and new queries: the hits as logged, with evidence if they are still the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slideseek.api import OpenArchive
from slideseek.archive.archive import Archive
from slideseek.errors import SlideseekError
from slideseek.searching.evidence import Explainer
from slideseek.searching.queries import Query
from slideseek.searching.query_log import LogEntry
from slideseek.searching.request import Request, Result
from slideseek.searching.searcher import Answer, Found
from slideseek.searching.votes import vote
from slideseek.types import Hit, SlideRecord
from slideseek_apps.reports.explained_match import Explained, explained
from slideseek_apps.reports.log_changes import changes_since
from slideseek_apps.reports.report_page import Report
from slideseek_apps.reports.search_report import Reported, search_report
from slideseek_apps.reports.sharing import IDENTIFIED, Sharing


@dataclass
class QueryPages:
    """Collect answers from one archive for a page. sharing: how slides are named on it. opened: its open engines."""

    archive: Archive
    with_evidence: bool = True
    sharing: Sharing = IDENTIFIED
    opened: OpenArchive | None = None

    def __post_init__(self) -> None:
        self._opened = self.opened or OpenArchive(self.archive)

    def logged(self, entry: LogEntry) -> Reported:
        """Return a query from the log with its logged hits. Evidence is added if a new search gives the same hits."""
        request = Request.unpack(entry.request)
        searcher = self._opened.searcher(entry.engine)
        found = [
            Found(rank, Hit(str(slide_id), float(distance)), self._record(str(slide_id)))
            for rank, (slide_id, distance) in enumerate(entry.answer["hits"], start=1)
        ]
        by = "" if self.sharing.shareable else f" by {entry.who}"
        who = f"query {entry.number}, {entry.asked.replace('T', ' ')}{by}; {self._settings(request)}"
        notes = list(entry.answer["notes"])
        try:
            now = request.run(searcher)
        except SlideseekError as error:
            unit = "" if searcher.engine.config.reranker else searcher.engine.spec.unit
            answer = _then(self._record(str(entry.answer["query"])), entry, request, unit, found)
            notes.append(f"the query cannot be run again: {error.cause}")
            return Reported(replace(answer, notes=tuple(notes)), asked=who)
        answer = _then(now.query.record, entry, request, now.answer.unit, found)
        if [one.hit for one in now] != [one.hit for one in found]:
            changed = "; ".join(changes_since(entry, searcher, now)) or "no recorded reason"
            notes.append(f"the query now has other hits, so no evidence is shown ({changed})")
            return Reported(replace(answer, notes=tuple(notes)), _shown(now.query), asked=who)
        return self.complete(Result(request, now.query, replace(answer, notes=tuple(notes))), who)

    def run(self, request: Request, engine: str) -> Reported:
        """Run a request now and return its answer."""
        return self.complete(self._opened.run(request, engine=engine))

    def page(self, reported: Sequence[Reported], title: str) -> Report:
        """Return the page of some answers."""
        names = dict.fromkeys(one.answer.engine for one in reported)
        engines = [self._opened.searcher(name).engine for name in names]
        return search_report(self.archive, engines, reported, title, sharing=self.sharing)

    def complete(self, result: Result, asked: str = "") -> Reported:
        """Return an answer with its evidence. If the encoder cannot explain it, a note says so."""
        evidence: dict[str, Explained] = {}
        request, query, answer = result.request, result.query, result.answer
        notes = list(answer.notes)
        if self.with_evidence:
            explainer = Explainer(self._opened.searcher(answer.engine))
            try:
                for found in answer.found:
                    why = explainer.explain(query, found.hit.slide_id, request.options)
                    evidence[found.hit.slide_id] = explained(self.archive, query, found.record, why)
            except SlideseekError as error:
                evidence = {}
                notes.append(f"no evidence: {error.cause}")
            if evidence and (request.relevant or request.rejected):
                notes.append("evidence is for the query only; distances also include the marked slides")
        return Reported(replace(answer, notes=tuple(notes)), _shown(query), evidence, asked or self._settings(request))

    def _settings(self, request: Request) -> str:
        """Describe the search. A shareable page only counts the filters: they may name a patient."""
        marked = ((request.relevant, "marked relevant"), (request.rejected, "marked not relevant"))
        names = [f"; {what}: {', '.join(map(self.sharing.slide, ids))}" for ids, what in marked if ids]
        if not self.sharing.shareable:
            return request.settings() + "".join(names)
        plain = replace(request, where=(), options=()).settings()
        return plain + (f", {len(request.where)} filter(s)" if request.where else "") + "".join(names)

    def _record(self, slide_id: str) -> SlideRecord:
        row = self.archive.catalog.slides.get(slide_id)
        return row.record if row else SlideRecord(slide_id, slide_id)


def _then(query: SlideRecord, entry: LogEntry, request: Request, unit: str, found: list[Found]) -> Answer:
    """Return the logged answer. Votes use the current metadata of the hits."""
    log, votes = entry.answer, vote(one.record for one in found)
    return Answer(query, entry.engine, unit, request.mode, found, votes, log["candidates"], log["milliseconds"], ())


def _shown(query: Query) -> Query | None:
    """Return the query if its patches can be drawn."""
    try:
        query.squares()
    except SlideseekError:
        return None
    return query
