"""The state of a session: the loaded archive, the settings, the last answer, and the marks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from slideseek.api import OpenArchive
from slideseek.archive.archive import Archive
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError
from slideseek.searching.evidence import Explainer
from slideseek.searching.filters import NAMED_FIELDS
from slideseek.searching.queries import Query
from slideseek.searching.query_log import log_result
from slideseek.searching.request import Request
from slideseek.searching.searcher import Answer, Mode, Searcher
from slideseek.types import SlideRecord

SOURCE = "session"


@dataclass(frozen=True, slots=True)
class Asked:
    """The last search: the request, its query, the answer, its number in the log (0: not logged), and the searcher.

    The query's code belongs to that searcher's engine and model.
    """

    request: Request
    query: Query
    answer: Answer
    number: int
    searcher: Searcher


@dataclass
class Session:
    """One person's session over one archive.

    engine, k, mode, where, same_patient, other_centers, any_stain: the settings of the next search. marks: by slide id,
    whether it was marked relevant. lines: the lines that succeeded, for `save`. notify: shows a note.
    """

    archive: Archive
    engine: str
    notify: Callable[[str], None]
    k: int = 5
    mode: Mode = "horizontal"
    where: list[str] = field(default_factory=list)
    same_patient: bool = False
    other_centers: bool = False
    any_stain: bool = False
    asked: Asked | None = None
    marks: dict[str, bool] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    id: str = field(default_factory=lambda: f"{time.strftime('%Y%m%d')}-{secrets.token_hex(3)}")
    _generations: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._opened = OpenArchive(self.archive)

    @property
    def searcher(self) -> Searcher:
        """The searcher of the current engine, opened on first use."""
        searcher = self._opened.searcher(self.engine)
        if self.engine not in self._generations:
            self._generations[self.engine] = self._generation(searcher)
        return searcher

    def _generation(self, searcher: Searcher) -> int:
        """Return the current generation of the engine's codes in the catalogue."""
        codes = searcher.stages.settings_digest(searcher.engine, "encode")
        return self.archive.catalog.changes.generation(codes)

    @property
    def explainer(self) -> Explainer:
        """Explains hits of the current engine."""
        return Explainer(self.searcher)

    @cached_property
    def engines(self) -> tuple[str, ...]:
        """Names of the configured engines."""
        return tuple(engine.name for engine in self.archive.config.engines)

    @cached_property
    def records(self) -> dict[str, SlideRecord]:
        """The slides of the archive by id, read on first use."""
        return {row.id: row.record for row in self.archive.catalog.slides}

    @cached_property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of each field in the archive, for completion. Slide ids are left out: `records` has them."""
        found: dict[str, set[str]] = {name: set() for name in NAMED_FIELDS if name != "id"}
        for record in self.records.values():
            for name in ("patient", "site", "label", "center"):
                found[name].add(getattr(record, name))
            for name, value in record.columns.items():
                found.setdefault(name, set()).add(value)
        return {name: tuple(sorted(values - {""})) for name, values in found.items()}

    def reload(self) -> None:
        """Drop what is loaded. The next search uses the current state of the archive."""
        self._opened.forget()
        self._generations.clear()
        for name in ("engines", "records", "values"):
            self.__dict__.pop(name, None)

    def use(self, engine: str) -> None:
        """Switch to another engine. If it cannot be opened, the current one stays."""
        self.archive.config.engine(engine)
        before, self.engine = self.engine, engine
        try:
            self.searcher  # noqa: B018 - opened now, to report its errors now
        except Exception:
            self.engine = before
            raise

    def settle(self, request: Request) -> Request:
        """Return a request with the session's current settings."""
        return replace(
            request,
            k=self.k,
            mode=self.mode,
            where=tuple(self.where),
            include_same_patient=self.same_patient,
            exclude_center=self.other_centers,
            any_stain=self.any_stain,
        )

    def ask(self, request: Request) -> Asked:
        """Search, remember and log. Marks are kept while the query stays the same."""
        searcher = self.searcher
        before = self.asked
        same = before is not None and before.request.question() == request.question()
        result = request.run(searcher, before.query if before and same and before.searcher is searcher else None)
        number, unlogged = log_result(searcher, result, SOURCE, self.id)
        stale = "the archive has changed since it was loaded; 'reload' loads it again"
        result = result.with_notes(
            unlogged, stale if self._generation(searcher) != self._generations[self.engine] else ""
        )
        if not same:
            self.marks.clear()
        self.asked = Asked(request, result.query, result.answer, number, searcher)
        return self.asked

    def last(self) -> Asked:
        """Return the last search; before the first one, a `UsageError`."""
        if self.asked is None:
            raise UsageError("no search yet", "try: search SLIDE")
        return self.asked

    def record(self, text: str) -> SlideRecord:
        """Return the slide that `text` names: a rank of the last hits, 0 for the query, or a slide id."""
        found = self.asked.answer.found if self.asked else ()
        if text.isdecimal() and self.asked is not None and int(text) <= len(found):
            return found[int(text) - 1].record if int(text) else self.asked.query.record
        if text in self.records:  # including a slide whose id is a number larger than the ranks
            return self.records[text]
        if text.isdecimal():
            self.last()
            raise UsageError(f"no hit {text}", f"the last search has {len(found)} hits")
        raise UsageError(
            f"{text!r} is neither the rank of a hit nor a slide id", did_you_mean(text, self.records, "try: show 1")
        )
