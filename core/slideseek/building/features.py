"""The phase that needs pixels: select and featurize every slide, wherever an executor runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeAlias

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import feature_file
from slideseek.archive.recorded_stages import KnownFailure
from slideseek.archive.slide_table import SlideRow
from slideseek.boundary import Owner
from slideseek.building.attempts import Attempts
from slideseek.building.incoming import Incoming, Result
from slideseek.building.parts import clear_parts
from slideseek.building.reporting import SlideReport
from slideseek.building.slide_work import Selection, SlideWork
from slideseek.engine import Engine
from slideseek.errors import DamagedError, SlideError
from slideseek.indexing.stage_cache import StageCache, feature_folder
from slideseek.interfaces import Executor

RANK = ("failed", "ok", "skipped", "known")
"""Of several engines' reports on one slide, the first outcome in this order is shown."""

Todo: TypeAlias = dict[str, dict[str, Engine]]
"""The engines with work to do, by their selections and then by their features: who shares a stage shares its work."""


class FeaturePhase:
    """Bring the features of slides up to date for every engine. Only the calling thread touches the catalogue.

    leave: leave the results for a build to take in, instead of committing them.
    """

    def __init__(
        self,
        archive: Archive,
        engines: Sequence[Engine],
        stages: StageCache,
        attempts: Attempts,
        executor: tuple[Owner, Executor],
        leave: bool = False,
    ) -> None:
        self._archive = archive
        self._engines = {engine.name: engine for engine in engines}
        self._stages = stages
        self._attempts = attempts
        self._owner, self._executor = executor
        self._leave = leave
        self._incoming = Incoming(archive.root)
        self._plugins = archive.config.plugins
        self._accepted: dict[str, dict[str, KnownFailure]] = {}

    def run(self, slides: Sequence[SlideRow], begin: Callable[[str], None]) -> Iterator[SlideReport]:
        """Yield one report per slide, after its commit, in the order in which they are done."""
        reports: dict[str, list[SlideReport]] = {}
        waiting: dict[str, tuple[SlideRow, Todo]] = {}
        twins: list[SlideRow] = []
        contents: set[str] = set()
        for slide in slides:
            found, todo = self._settle(slide)
            content = repr(slide.content)
            if not todo:
                begin(slide.id)
                yield _shown(found)
            elif content in contents:  # of the same content as one that is to be done now: its turn comes after
                twins.append(slide)
            else:
                contents.add(content)
                reports[slide.id], waiting[slide.id] = found, (slide, todo)
        works = (self._work(*one) for one in waiting.values())
        with closing(self._owner.call("run()", self._executor.run, works)) as running:
            while (done := self._owner.call("run()", next, running, None)) is not None:
                work, results = done
                if work.slide_id not in reports:
                    raise self._owner.wrong(f"returned slide {work.slide_id!r} twice from run()")
                begin(work.slide_id)
                slide, todo = waiting[work.slide_id]
                found = reports.pop(work.slide_id)
                try:
                    found += [report for result in results if (report := self._keep(slide, result))]
                except SlideError as error:  # the slide hung, or ended the workers it was given to
                    first = [next(iter(engines.values())) for engines in todo.values()]
                    found += [self._attempts.fail(engine, "select", slide, error) for engine in first]
                yield _shown(found)
        if reports:
            raise self._owner.wrong(f"returned from run() without {len(reports)} of the slides")
        if twins:
            yield from self.run(twins, begin)

    def clear_parts(self, still: Sequence[SlideRow]) -> None:
        """Remove the parts of slides that are done or gone; those of slides still to do are kept for the next build."""
        self._incoming.sweep()
        for engine in self._engines.values():
            clear_parts(
                self._archive.root,
                engine.feature_digest,
                (self._stages.key(engine, "featurize", slide) for slide in still),
            )

    def _settle(self, slide: SlideRow) -> tuple[list[SlideReport], Todo]:
        """Report what is done, failed for good or was left by another process; return what is still to do."""
        reports: list[SlideReport] = []
        todo: Todo = {}
        for engine in self._engines.values():
            key = self._stages.key(engine, "featurize", slide)
            selection = self._stages.key(engine, "select", slide)
            if failure := self._known(engine).get(slide.id):
                reports.append(SlideReport(slide.id, "known", failure.shown))
            elif self._stages.done(engine, "featurize", slide):
                reports.append(SlideReport(slide.id, "skipped"))
            elif (record := self._stages.record(engine, "select", slide)) and record.status == "empty":
                reports.append(SlideReport(slide.id, "failed", record.cause, record.fix))
            elif twin := self._stages.sound(key):  # another slide with the same content has them
                reports.append(self._attempts.keep(engine, "featurize", slide, twin, seconds=0.0))
            else:
                left = [self._incoming.get(one, engine.name) for one in (selection, key)]
                found = [report for result in left if result and (report := self._keep(slide, result, again=True))]
                reports += [replace(one, outcome="skipped") if self._leave and not one.cause else one for one in found]
                if not found:
                    todo.setdefault(engine.select_digest, {}).setdefault(engine.feature_digest, engine)
        return reports, todo

    def _work(self, slide: SlideRow, todo: Todo) -> SlideWork:
        """Return the work on a slide, with what is stored of it already."""
        selections = []
        for by_features in todo.values():
            first = next(iter(by_features.values()))
            key = self._stages.key(first, "select", slide)
            engines = [(engine, self._stages.key(engine, "featurize", slide)) for engine in by_features.values()]
            left = self._incoming.get(key, first.name) if self._leave else None
            selections.append(Selection(first, key, left.payload if left else self._stages.sound(key), tuple(engines)))
        incoming = self._incoming if self._leave else None
        return SlideWork(slide, self._archive.root, tuple(selections), self._plugins, incoming)

    def _known(self, engine: Engine) -> dict[str, KnownFailure]:
        """Return the failures of an engine's features that were accepted when the build began, by slide."""
        if engine.feature_digest not in self._accepted:
            work = self._stages.catalog.work
            self._accepted[engine.feature_digest] = work.known_failures((engine.select_digest, engine.feature_digest))
        return self._accepted[engine.feature_digest]

    def _keep(self, slide: SlideRow, result: Result, again: bool = False) -> SlideReport | None:
        """Commit a result. Return the slide's report if it is its last one: features, or why there are none.

        again: the result was found, and is made again if it is damaged.
        """
        engine, payload, attempts = self._engines[result.engine], result.payload, self._attempts
        if payload is None:
            error = SlideError(result.cause, result.fix)
            return replace(attempts.fail(engine, result.stage, slide, error, result.seconds), passing=result.passing)
        if elsewhere := payload.file != (file := feature_file(feature_folder(engine.feature_digest), slide.id)):
            try:
                payload = self._incoming.take(payload, "" if self._leave else file)
            except DamagedError as error:
                self._incoming.drop(payload.key)
                return None if again else attempts.fail(engine, result.stage, slide, error, result.seconds)
        report = attempts.keep(engine, result.stage, slide, payload, result.seconds, result.facts)
        if elsewhere and not self._leave:
            self._incoming.drop(payload.key)
        return report if result.stage == "featurize" or report.outcome == "failed" else None


def _shown(reports: Sequence[SlideReport]) -> SlideReport:
    """Return one report of a slide for those of all engines."""
    shown = min(reports, key=lambda report: RANK.index(report.outcome))
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    return replace(shown, notes=tuple(notes), passing=any(report.passing for report in reports))
