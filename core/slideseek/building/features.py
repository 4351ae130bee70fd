"""The phase that needs pixels: select and featurize every slide, reading ahead while features are computed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import pack_patches, store_features, unpack_patches
from slideseek.archive.recorded_stages import KnownFailure
from slideseek.archive.slide_table import SlideRow
from slideseek.building.attempts import Attempts
from slideseek.building.parts import Begun, Parts, ReadSoFar, clear_parts
from slideseek.building.prefetch import (
    Ahead,
    AllRead,
    Facts,
    Failed,
    Images,
    Message,
    Selected,
    SelectTask,
    SlideTask,
    as_slide_error,
    read_slide,
)
from slideseek.building.reporting import SlideReport
from slideseek.engine import Engine, make_bag
from slideseek.errors import SlideError, SlideseekError
from slideseek.indexing.stage_cache import StageCache, feature_folder
from slideseek.types import Float32, Int64, Patches, UInt8

RANK = ("failed", "ok", "skipped", "known")
"""Of several engines' reports on one slide, the first outcome in this order is shown."""


class FeaturePhase:
    """Bring the features of slides up to date for every engine. Only the calling thread touches the catalogue."""

    def __init__(
        self,
        archive: Archive,
        engines: Sequence[Engine],
        stages: StageCache,
        attempts: Attempts,
        workers: int,
        patience: float,
    ) -> None:
        self._archive = archive
        self._engines = engines
        self._stages = stages
        self._attempts = attempts
        self._ahead: Ahead[Message] = Ahead(workers, patience)
        self._warm: set[str] = set()
        self._accepted: dict[str, dict[str, KnownFailure]] = {}

    def run(self, slides: Sequence[SlideRow], begin: Callable[[str], None]) -> Iterator[SlideReport]:
        """Yield one report per slide, in order, after its commit."""
        plans: list[_Plan] = []

        def sources() -> Iterator[Callable[[], Iterator[Message]]]:
            for slide in slides:
                plan = self._plan(slide)
                plans.append(plan)
                yield partial(read_slide, plan.task) if plan.task.selections else partial(iter, ())

        for number, messages in enumerate(self._ahead.run(sources())):
            plan = plans[number]
            begin(plan.slide.id)
            self._consume(plan, messages)
            shown = min(plan.reports, key=lambda report: RANK.index(report.outcome))
            notes = dict.fromkeys(note for report in plan.reports for note in report.notes)
            yield replace(shown, notes=tuple(notes))

    def clear_parts(self, still: Sequence[SlideRow]) -> None:
        """Remove the parts of slides that are done or gone; those of slides still to do are kept for the next build."""
        for engine in self._engines:
            clear_parts(
                self._archive.root,
                engine.feature_digest,
                (self._stages.key(engine, "featurize", slide) for slide in still),
            )

    def _plan(self, slide: SlideRow) -> _Plan:
        """Determine what a slide still needs; engines that share a stage share its task."""
        reports: list[SlideReport] = []
        todo: dict[str, dict[str, Engine]] = {}
        for engine in self._engines:
            key = self._stages.key(engine, "featurize", slide)
            known = self._known(engine)
            if failure := known.get(slide.id):
                reports.append(SlideReport(slide.id, "known", failure.shown))
            elif self._stages.done(engine, "featurize", slide):
                reports.append(SlideReport(slide.id, "skipped"))
            elif (record := self._stages.record(engine, "select", slide)) and record.status == "empty":
                reports.append(SlideReport(slide.id, "failed", record.cause, record.fix))
            elif twin := self._stages.sound(key):  # another slide with the same content has them
                reports.append(self._attempts.keep(engine, "featurize", slide, twin, seconds=0.0))
            else:
                self._warm_up(engine)
                todo.setdefault(engine.select_digest, {}).setdefault(engine.feature_digest, engine)
        selections = []
        parts: dict[str, tuple[Parts, Begun | None]] = {}
        for by_features in todo.values():
            engines = tuple(by_features.values())
            stored = self._stages.sound(self._stages.key(engines[0], "select", slide))
            patches = unpack_patches(stored, slide.id) if stored else None
            read: dict[str, ReadSoFar] = {}
            for engine in engines:
                kept = Parts(self._archive.root, engine.feature_digest, self._stages.key(engine, "featurize", slide))
                begun = kept.begun(engine.width + 1, len(patches)) if patches is not None else None
                parts[engine.name] = kept, begun
                if begun is not None:
                    read[engine.name] = begun.read
            selections.append(SelectTask(engines[0], patches, engines, read))
        outline = self._archive.root / slide.record.contours if slide.record.contours else None
        path = self._archive.slide_path(slide.record)
        return _Plan(slide, SlideTask(slide, self._archive.root, path, outline, tuple(selections)), reports, parts)

    def _known(self, engine: Engine) -> dict[str, KnownFailure]:
        """Return the failures of an engine's features that were accepted when the build began, by slide."""
        if engine.feature_digest not in self._accepted:
            work = self._stages.catalog.work
            self._accepted[engine.feature_digest] = work.known_failures((engine.select_digest, engine.feature_digest))
        return self._accepted[engine.feature_digest]

    def _warm_up(self, engine: Engine) -> None:
        """Try a featurizer before its first slide: bad weights or a wrong width are one error, not one per slide."""
        if engine.feature_digest not in self._warm:
            self._warm.add(engine.feature_digest)
            with suppress(SlideError):  # such as imported features, which no image has: each slide reports it
                engine.probe_features()

    def _consume(self, plan: _Plan, messages: Iterator[Message]) -> None:
        """Turn a slide's messages into committed records; any error goes into this slide's report."""
        slide = plan.slide
        work = _Work()
        try:
            for message in messages:
                match message:
                    case Selected(engine, patches, facts, seconds):
                        work = _Work(patches)
                        if self._stages.done(engine, "select", slide):  # stored patches: their record stays true
                            continue
                        payload = pack_patches(self._stages.key(engine, "select", slide), patches, facts.mpp)
                        report = self._attempts.keep(engine, "select", slide, payload, seconds, facts)
                        if report.outcome == "failed":
                            plan.reports.append(report)
                    case Images(engine, rows, images, blur, read):
                        if work.take(engine, rows, images, blur):
                            plan.parts[engine.name][0].add(rows, work.features[-1], read)
                    case AllRead(engine, facts):
                        plan.reports.append(self._finish(engine, plan, work, facts))
                        work = _Work(work.patches)
                    case Failed(engine, stage, error):
                        plan.reports.append(self._attempts.fail(engine, stage, slide, error))
                        work = _Work(work.patches)
        except TimeoutError as error:
            hung = SlideError(f"reading hung ({error})", "check the disk or network share, then build again")
            for selection in plan.task.selections:
                plan.reports.append(self._attempts.fail(selection.engine, "select", slide, hung))

    def _finish(self, engine: Engine, plan: _Plan, work: _Work, facts: Facts) -> SlideReport:
        """Store one engine's features of a slide, or why there are none."""
        slide, (parts, begun) = plan.slide, plan.parts[engine.name]
        if begun is not None:
            work.rows.insert(0, begun.rows)
            work.features.insert(0, begun.features)
        try:
            report = self._store(engine, slide, work, facts)
            if report.outcome == "ok":
                parts.remove()
            return report
        except Exception as error:  # a full disk, or a name the file system refuses: report it for this slide and go on
            return self._attempts.fail(engine, "featurize", slide, as_slide_error("storing", error), work.seconds)

    def _store(self, engine: Engine, slide: SlideRow, work: _Work, facts: Facts) -> SlideReport:
        if work.error is not None or work.patches is None:
            error = work.error or SlideError("nothing was selected", "build again")
            return self._attempts.fail(engine, "featurize", slide, error, work.seconds)
        rows, table = np.concatenate(work.rows), np.concatenate(work.features)
        patches, sharp, notes = engine.in_focus(work.patches, rows, table[:, -1].copy(), facts.mpp)
        facts = replace(facts, notes=(*facts.notes, *notes))
        bag = make_bag(table[sharp, :-1], patches, slide.record.site, facts.mpp)
        key = self._stages.key(engine, "featurize", slide)
        folder = feature_folder(engine.feature_digest)
        payload = store_features(self._archive.root, folder, key, bag, patches, facts.mpp)
        return self._attempts.keep(engine, "featurize", slide, payload, work.seconds, facts)


@dataclass(slots=True)
class _Plan:
    """What a slide still needs, the reports it has so far, and by engine the parts that are done."""

    slide: SlideRow
    task: SlideTask
    reports: list[SlideReport]
    parts: dict[str, tuple[Parts, Begun | None]]


class _Work:
    """The features of one slide for one engine, as far as they are computed; the last column is the blur in µm."""

    def __init__(self, patches: Patches | None = None) -> None:
        self.patches = patches
        self.rows: list[Int64] = []
        self.features: list[Float32] = []
        self.error: SlideseekError | None = None
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time since the work began."""
        return time.perf_counter() - self._started

    def take(self, engine: Engine, rows: Int64, images: UInt8, blur: Float32) -> bool:
        """Compute the features of some patches and return whether it worked; after an error the rest are skipped."""
        if self.error is not None:
            return False
        try:
            self.features.append(np.column_stack([engine.features(images), blur]))
            self.rows.append(rows)
        except Exception as error:
            self.error = as_slide_error("featurizing", error)
        return self.error is None
