"""Search one archive: one searcher per engine, reloaded when the archive has changed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cachetools import LRUCache

from slideseek.archive.archive import Archive
from slideseek.errors import SlideseekError, UsageError
from slideseek.indexing.live_index import open_engine
from slideseek.plugins import Registry
from slideseek.searching.evidence import Evidence, Explainer
from slideseek.searching.queries import Query
from slideseek.searching.query_log import log_result
from slideseek.searching.request import Request
from slideseek.searching.reranking import unit_of
from slideseek.searching.searcher import Answer, Searcher
from slideseek_apps.viewer.archive_watcher import ArchiveWatcher
from slideseek_apps.viewer.slide_directory import SlideDirectory

MAX_QUERIES = 24
"""Number of cached queries with their features. Explaining a hit must not read the region again."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What a user needs to know to choose an engine. problem: why it cannot be searched, "" if it can.

    unit: unit of its distances, "" if there is none. patch_um: side of a patch in µm, None if patches differ.
    """

    name: str
    encoder: str
    featurizer: str
    code: str
    unit: str
    patch_um: float | None
    problem: str = ""
    fix: str = ""


class SearchService:
    """The loaded state of one archive. Thread-safe; queries are made and hits explained one at a time."""

    def __init__(self, archive: Archive, registry: Registry, session: str, logged: bool = True) -> None:
        self.archive = archive
        self._registry = registry
        self._session = session
        self._logged = logged
        self._watcher = ArchiveWatcher(archive)
        self._loading = threading.RLock()
        self._making = threading.Lock()
        self._stamp = ""
        self._directory = SlideDirectory(())
        self._searchers: dict[str, Searcher] = {}
        self._queries: LRUCache[tuple[str, Request], Query] = LRUCache(MAX_QUERIES)

    @property
    def directory(self) -> SlideDirectory:
        """The current slides. Reloading after a change takes about a second for 100,000 slides."""
        self._refresh()
        return self._directory

    @property
    def loaded(self) -> SlideDirectory:
        """The slides as last loaded, without a check for changes: fast, for the many requests of one picture."""
        return self._directory

    def unit(self, engine: str, options: Sequence[str] = ()) -> str:
        """Return the unit of an engine's distances, "" if there is none. options: those of the search."""
        searcher = self._searcher(engine)
        reranker = searcher.tuned(options).reranker
        return searcher.engine.spec.unit if reranker is None else unit_of(reranker)

    def engines(self) -> list[EngineFacts]:
        """Return the configured engines. Those that cannot be searched have a `problem`."""
        self._refresh()
        found = []
        for config in self.archive.config.engines:
            names = config.name, config.encoder.use, config.featurizer.use
            try:
                engine = open_engine(self.archive, config, self._registry)
            except SlideseekError as error:
                found.append(EngineFacts(*names, "", "", None, error.cause, error.fix))
                continue
            problem = self._problem(config.name)
            known = str(engine.spec), engine.spec.unit, engine.resolved.patch_um
            found.append(EngineFacts(*names, *known, *problem))
        return found

    def search(self, engine: str, request: Request, who: str = "") -> Answer:
        """Run a request and log it in the archive, unless nothing is to be written. who: the user behind a proxy."""
        searcher = self._searcher(engine)
        with _naming_the_image(request):
            query = self._query(searcher, request)
            with self._loading:  # a search may reopen an index that follows its archive
                result = request.run(searcher, query)
        with self._loading:
            if request.kind == "patch":  # the path of an upload is private and must not be logged
                result = result.without_upload()
            if self._logged:
                log_result(searcher, result, source="serve", session=self._session, who=who)
        return result.answer

    def explain(self, engine: str, request: Request, hit_id: str) -> Evidence:
        """Return what makes a slide similar to the query."""
        searcher = self._searcher(engine)
        with _naming_the_image(request):
            query = self._query(searcher, request)
            with self._making:
                return Explainer(searcher).explain(query, hit_id, request.options)

    def warm(self) -> None:
        """Load the directory and search every engine once, so the first search is as fast as later ones."""
        for facts in self.engines():
            if not facts.problem:
                searcher = self._searcher(facts.name)
                request = Request(text=next(iter(searcher.index.ids)), k=1)
                with self._loading:
                    request.run(searcher, self._query(searcher, request))

    def prepare(self) -> None:
        """Load every engine's components and model, which regions, patches and some evidence need."""
        for facts in self.engines():
            if not facts.problem:
                # A component that cannot be loaded is reported on the first request that needs it.
                with contextlib.suppress(SlideseekError), self._making:
                    self._searcher(facts.name).queries.prepared()

    def close(self) -> None:
        """Close the catalogue's connections."""
        self._watcher.close()
        self.archive.close()

    def _problem(self, name: str) -> tuple[str, str]:
        try:
            self._searcher(name)
        except SlideseekError as error:
            return error.cause, error.fix
        return "", ""

    def _searcher(self, name: str) -> Searcher:
        self._refresh()
        with self._loading:
            if name not in self._searchers:
                self._searchers[name] = Searcher.open(self.archive, name, self._registry)
            return self._searchers[name]

    def _query(self, searcher: Searcher, request: Request) -> Query:
        """Make a query or take it from the cache. It does not depend on the search settings."""
        question = request.question()
        name = searcher.engine.name, question
        with self._loading:
            if (kept := self._queries.get(name)) is not None:
                return kept
        if question.kind == "slide":
            # Never a file: only slides of the archive are read, whatever the request contains.
            made = searcher.queries.stored(question.text)
        elif question.kind == "region" and self.archive.catalog.slides.get(question.text) is None:
            raise no_slide(question.text)
        else:
            with self._making:
                made = question.query(searcher)
        with self._loading:
            if self._searchers.get(searcher.engine.name) is searcher:
                self._queries[name] = made
        return made

    def _refresh(self) -> None:
        with self._loading:
            stamp = self._watcher.stamp()
            if stamp != self._stamp:
                self._directory = SlideDirectory(self.archive.catalog.slides)
                self._searchers.clear()
                self._queries.clear()
                self._stamp = stamp


@contextlib.contextmanager
def _naming_the_image(request: Request) -> Iterator[None]:
    """Say "the image" in errors about an uploaded patch, not the name of the file it lies in."""
    try:
        yield
    except SlideseekError as error:
        if request.kind == "patch":
            for name in (repr(request.text), request.text, Path(request.text).name):
                error.cause = error.cause.replace(name, "the image")
        raise


def no_slide(key: str) -> UsageError:
    """Return the error for a key that matches no slide."""
    return UsageError(f"no slide {key} in this archive", "it may have been removed: go back to the list of slides")
