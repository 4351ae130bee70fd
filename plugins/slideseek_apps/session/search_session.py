"""What a session remembers: the archive loaded once, the settings, the last answer, and the marks."""

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
    """The last search: what was asked, the query it made, the answer, its number in the log (0: not logged), and who
    was asked: the query's code is of that searcher's engine and model."""

    request: Request
    query: Query
    answer: Answer
    number: int
    searcher: Searcher


@dataclass
class Session:
    """One person's session over one archive.

    engine, k, mode, where, same_patient, other_centers: the settings of the next search. marks: by slide id, whether
    it was marked relevant. said: the lines that were understood, for `save`. tell: shows a note.
    """

    archive: Archive
    engine: str
    tell: Callable[[str], None]
    k: int = 5
    mode: Mode = "horizontal"
    where: list[str] = field(default_factory=list)
    same_patient: bool = False
    other_centers: bool = False
    asked: Asked | None = None
    marks: dict[str, bool] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    id: str = field(default_factory=lambda: f"{time.strftime('%Y%m%d')}-{secrets.token_hex(3)}")
    _generations: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._opened = OpenArchive(self.archive)

    @property
    def searcher(self) -> Searcher:
        """The searcher of the present engine, opened when it is first used."""
        searcher = self._opened.searcher(self.engine)
        if self.engine not in self._generations:
            self._generations[self.engine] = self._generation(searcher)
        return searcher

    def _generation(self, searcher: Searcher) -> int:
        """Return the generation of the present engine's codes in the catalogue now."""
        codes = searcher.stages.settings_digest(searcher.engine, "encode")
        return self.archive.catalog.changes.generation(codes)

    @property
    def explainer(self) -> Explainer:
        """Explains hits of the present engine."""
        return Explainer(self.searcher)

    @cached_property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines of the archive's configuration."""
        return tuple(engine.name for engine in self.archive.config.engines)

    @cached_property
    def records(self) -> dict[str, SlideRecord]:
        """The slides of the archive by id, as they were when the session first needed them."""
        return {row.id: row.record for row in self.archive.catalog.slides}

    @cached_property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values each field has in the archive, for completion; of slide ids there are too many to repeat."""
        found: dict[str, set[str]] = {name: set() for name in NAMED_FIELDS if name != "id"}
        for record in self.records.values():
            for name in ("patient", "site", "label", "center"):
                found[name].add(getattr(record, name))
            for name, value in record.fields.items():
                found.setdefault(name, set()).add(value)
        return {name: tuple(sorted(values - {""})) for name, values in found.items()}

    def reload(self) -> None:
        """Forget what was loaded, so that the archive's present state is searched."""
        self._opened.forget()
        self._generations.clear()
        for name in ("engines", "records", "values"):
            self.__dict__.pop(name, None)

    def use(self, engine: str) -> None:
        """Search with another engine from now on; one that cannot be opened leaves the present one."""
        self.archive.config.engine(engine)
        before, self.engine = self.engine, engine
        try:
            self.searcher  # noqa: B018 - opened now, so that what is wrong with it is said now
        except Exception:
            self.engine = before
            raise

    def settle(self, request: Request) -> Request:
        """Return a request under the session's present settings."""
        return replace(
            request,
            k=self.k,
            mode=self.mode,
            where=tuple(self.where),
            include_same_patient=self.same_patient,
            exclude_center=self.other_centers,
        )

    def ask(self, request: Request) -> Asked:
        """Search, remember and log; marks stay as long as the same thing is asked."""
        searcher = self.searcher
        before = self.asked
        same = before is not None and before.request.question() == request.question()
        result = request.run(searcher, before.query if before and same and before.searcher is searcher else None)
        number, unlogged = log_result(searcher, result, SOURCE, self.id)
        stale = "the archive has changed since it was loaded: 'reload' looks at it again"
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
            raise UsageError("nothing was searched yet", "try: search SLIDE")
        return self.asked

    def record(self, text: str) -> SlideRecord:
        """Return the slide a person means: a rank of the last hits, 0 for the query, or a slide's id."""
        found = self.asked.answer.found if self.asked else ()
        if text.isdecimal() and self.asked is not None and int(text) <= len(found):
            return found[int(text) - 1].record if int(text) else self.asked.query.record
        if text in self.records:  # also a slide whose id is a number, beyond the ranks
            return self.records[text]
        if text.isdecimal():
            self.last()
            raise UsageError(f"no hit {text}", f"the last search has {len(found)}")
        raise UsageError(
            f"{text!r} is neither the rank of a hit nor a slide", did_you_mean(text, self.records, "try: show 1")
        )
