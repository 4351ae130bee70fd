"""Search one archive: one searcher per engine, reloaded when the archive has changed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cachetools import LRUCache

from slideseek.api import OpenArchive
from slideseek.archive.archive import Archive
from slideseek.errors import SlideseekError, UsageError
from slideseek.indexing.live_index import open_engine
from slideseek.plugins import Registry
from slideseek.searching.calibration import Calibration, calibrate
from slideseek.searching.evidence import Evidence, Explainer, strongest
from slideseek.searching.located_bags import LocatedBag, stored_bag
from slideseek.searching.queries import Query
from slideseek.searching.query_log import log_result
from slideseek.searching.request import UPLOADED, Request, Result
from slideseek.searching.reranking import unit_of
from slideseek.searching.searcher import Searcher
from slideseek_apps.viewer.allowed_files import AllowedFiles
from slideseek_apps.viewer.archive_watcher import ArchiveWatcher
from slideseek_apps.viewer.slide_directory import SlideDirectory

MAX_QUERIES = 24
"""Number of cached queries with their features. Explaining a hit must not read the region again."""

MAX_CALIBRATIONS = 64
WARM_SIDE = 224
"""Side of the white picture, in pixels, with which networks are loaded."""

PLACES_SECONDS = 10.0
"""Time to look for the matching places of hits; those not found by then are shown as whole slides."""


def without_upload(result: Result) -> Result:
    """Return a result with the name of an uploaded image instead of its temporary file."""
    file = Path(result.request.text)
    name = f"{UPLOADED}{file.stem[:12]}"
    record = replace(result.answer.query, id=name, path="")
    notes = tuple(note.replace(file.name, "the image") for note in result.answer.notes)
    answer = replace(result.answer, query=record, notes=notes)
    return Result(replace(result.request, text=name), result.query, answer)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What a user needs to know to choose an engine. problem: why it cannot be searched, "" if it can.

    unit: unit of its distances, "" if there is none. patch_um: side of a patch in µm, None if patches differ.
    text: whether it can be queried with text.
    """

    name: str
    encoder: str
    featurizer: str
    code: str
    unit: str
    patch_um: float | None
    problem: str = ""
    fix: str = ""
    text: bool = False


class SearchService:
    """The loaded state of one archive. Thread-safe; queries are made and hits explained one at a time."""

    def __init__(
        self,
        archive: Archive,
        registry: Registry,
        session: str,
        logged: bool = True,
        files: AllowedFiles | None = None,
    ) -> None:
        self.archive = archive
        self.files = files or AllowedFiles()
        self.opened = OpenArchive(archive, registry)
        self._registry = registry
        self._session = session
        self._logged = logged
        self._watcher = ArchiveWatcher(archive)
        self._loading = threading.RLock()
        self._making = threading.Lock()
        self._stamp = ""
        self._directory = SlideDirectory(())
        self._queries: LRUCache[tuple[str, Request], Query] = LRUCache(MAX_QUERIES)
        self._calibrations: LRUCache[tuple[str, Request], dict[str, Calibration]] = LRUCache(MAX_CALIBRATIONS)
        self.prepared: tuple[int, int] = (0, 0)

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
            found.append(EngineFacts(*names, *known, *problem, text=not engine.resolved.no_text))
        return found

    @property
    def writable(self) -> bool:
        """Whether anything may be written in the archive."""
        return self._logged

    def search(self, engine: str, request: Request, who: str = "") -> Result:
        """Run a request and log it in the archive, unless nothing is to be written. who: the user behind a proxy."""
        result = self.run(engine, request)
        with self._loading:
            if self._logged:
                log_result(self._searcher(engine), result, source="serve", session=self._session, who=who)
        return self._shown(result)

    def run(self, engine: str, request: Request) -> Result:
        """Run a request without logging it. The path of an upload is private, and not in the result."""
        searcher = self._searcher(engine)
        with _naming_the_image(request):
            query = self._query(searcher, request)
            with self._loading:  # a search may reopen an index that follows its archive
                result = request.run(searcher, query)
        return without_upload(result) if request.kind == "patch" else result

    def report(self, engine: str, request: Request) -> Result:
        """Run a request for a page or a table: the query's record is as people may see it."""
        result = self._shown(self.run(engine, request))
        return replace(result, query=replace(result.query, record=result.answer.query))

    def _shown(self, result: Result) -> Result:
        """Return a result whose query, if it is a file, has the name that people may read instead of its path."""
        record = result.answer.query
        if not self.files.holds(record.id):
            return result
        return replace(result, answer=replace(result.answer, query=replace(record, id=self.files.name(record.id))))

    def calibration(self, engine: str, request: Request) -> dict[str, Calibration]:
        """Return how often votes with the same agreement were right, for slides of the archive searched alike."""
        searcher = self._searcher(engine)
        plain = Request(
            text="",
            k=request.k,
            mode=request.mode,
            where=request.where,
            exclude_center=request.exclude_center,
            options=request.options,
            any_stain=request.any_stain,
        )
        name = engine, plain
        with self._loading:
            if name not in self._calibrations:
                self._calibrations[name] = calibrate(searcher, plain)
            return self._calibrations[name]

    def places(self, engine: str, request: Request, hit_ids: Sequence[str]) -> dict[str, tuple[int, int, float]]:
        """Return by slide id the square (x, y, side) of the patch that matches the query best, in level-0 pixels.

        Slides that are not done in time, and those whose match cannot be explained, are left out.
        """
        found: dict[str, tuple[int, int, float]] = {}
        deadline = time.monotonic() + PLACES_SECONDS
        for slide_id in hit_ids:
            if time.monotonic() > deadline:
                break
            with contextlib.suppress(SlideseekError):
                made = self.explain(engine, request, slide_id)
                best = made.pairs[0].hit if made.pairs else strongest(made.hit_parts, 1)[0]
                (x, y), side = made.hit.xy[best].tolist(), float(made.hit.side[best])
                if x >= 0 and y >= 0:
                    found[slide_id] = x, y, side
        return found

    def patches(self, engine: str, slide_id: str) -> LocatedBag:
        """Return the patches of a slide of the archive; `SlideseekError` if their places are not known."""
        searcher = self._searcher(engine)
        row = self.archive.catalog.slides.get(slide_id)
        if row is None:
            raise no_slide(slide_id)
        found = stored_bag(self.archive, searcher.engine, searcher.stages, row)
        if not len(found.squares) or bool(np.all(found.squares.xy < 0)):
            raise SlideseekError(
                "the features of this slide were imported without the places of their patches",
                "import features with coordinates to see a map; searches work without",
            )
        return found

    def explain(self, engine: str, request: Request, hit_id: str) -> Evidence:
        """Return what makes a slide similar to the query."""
        return self.explained(engine, request, hit_id)[1]

    def explained(self, engine: str, request: Request, hit_id: str) -> tuple[Query, Evidence]:
        """Return the query, and what makes a slide similar to it."""
        searcher = self._searcher(engine)
        with _naming_the_image(request):
            query = self._query(searcher, request)
            with self._making:
                return query, Explainer(searcher).explain(query, hit_id, request.options)

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
        names = [facts.name for facts in self.engines() if not facts.problem]
        for done, name in enumerate(names):
            self.prepared = done, len(names)
            # A component that cannot be loaded is reported on the first request that needs it.
            with contextlib.suppress(SlideseekError), self._making:
                engine = self._searcher(name).queries.prepared()
                if not engine.resolved.imported:  # a network is loaded when it first sees a picture
                    engine.features(np.full((1, WARM_SIDE, WARM_SIDE, 3), 255, np.uint8))
        self.prepared = len(names), len(names)

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
            return self.opened.searcher(name)

    def _query(self, searcher: Searcher, request: Request) -> Query:
        """Make a query or take it from the cache. It does not depend on the search settings."""
        question = request.question()
        name = searcher.engine.name, question
        with self._loading:
            if (kept := self._queries.get(name)) is not None:
                return kept
        # Only slides of the archive and files of allowed folders are read, whatever the request contains.
        known = self.archive.catalog.slides.get(question.text) is not None
        if question.kind == "slide" and known:
            made = searcher.queries.stored(question.text)
        elif question.kind in ("slide", "region") and not known and not self.files.holds(question.text):
            raise no_slide(question.text)
        else:
            with self._making:
                made = question.query(searcher)
        with self._loading:
            if self.opened.searcher(searcher.engine.name) is searcher:
                self._queries[name] = made
        return made

    def _refresh(self) -> None:
        with self._loading:
            stamp = self._watcher.stamp()
            if stamp != self._stamp:
                self._directory = SlideDirectory(self.archive.catalog.slides)
                self.opened.forget()
                self._queries.clear()
                self._calibrations.clear()
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
