"""Build an archive: do what is missing, slide by slide, and tell the truth about each.

Every result is kept under a key of its content and settings and is committed before it is reported, so a run
that is killed goes on where it stopped, and engines that share a stage share its results.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from slideseek import __version__
from slideseek.archive.archive import Archive
from slideseek.archive.bags import ArchiveBags
from slideseek.archive.catalog import Payload, Stage, StageRecord
from slideseek.archive.models import load_model, save_model
from slideseek.archive.payloads import pack_code, pack_patches, store_features, unpack_patches
from slideseek.archive.slide_table import SlideRow
from slideseek.engine import Engine
from slideseek.errors import DamagedError, SlideError, SlideseekError, one_line
from slideseek.index_store import save_index
from slideseek.keys import digest
from slideseek.ledger import Ledger
from slideseek.slides.pyramid import PyramidSlide
from slideseek.slides.reader import open_slide

Outcome: TypeAlias = Literal["ok", "skipped", "failed"]

DEBUG_VARIABLE = "SLIDESEEK_DEBUG"
NO_TISSUE = ("no tissue found", "look at the slide; if it shows tissue, choose another 'tissue' option")


@dataclass(frozen=True, slots=True)
class SlideReport:
    """How one slide fared in one phase. `skipped` means done before; a slide without tissue has failed."""

    slide_id: str
    outcome: Outcome
    cause: str = ""
    fix: str = ""
    notes: tuple[str, ...] = ()


class Reporter(Protocol):
    """What a build tells while it runs."""

    def phase(self, name: str, total: int) -> None:
        """A phase of `total` slides begins."""

    def begin(self, slide_id: str) -> None:
        """Work on a slide begins."""

    def slide(self, report: SlideReport) -> None:
        """A slide is finished in this phase, and committed."""

    def note(self, text: str) -> None:
        """Something worth saying aloud."""


@dataclass(slots=True)
class BuildSummary:
    """What a build did.

    counts: slides by outcome of the features phase. failures: the last report of each failed slide. seconds:
    wall time by phase. stage_seconds: wall time of each slide by stage. indexed: slides by engine.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, SlideReport] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    stage_seconds: dict[str, list[float]] = field(default_factory=dict)
    indexed: dict[str, int] = field(default_factory=dict)


class Builder:
    """Run the stages of several engines over an archive."""

    def __init__(self, archive: Archive, engines: Sequence[Engine], reporter: Reporter, refit: bool = False) -> None:
        self.archive = archive
        self.catalog = archive.catalog
        self.ledger = Ledger(archive, reporter.note)
        self.engines = engines
        self.reporter = reporter
        self.refit = refit
        self.summary = BuildSummary()

    def run(self) -> BuildSummary:
        """Select and featurize every slide, then fit, encode and index for each engine."""
        with self.archive.writing():
            config = json.dumps({engine.name: engine.settings for engine in self.engines}, sort_keys=True)
            versions = {"slideseek": __version__, "python": platform.python_version()}
            run = self.catalog.start_run("build", config, versions)
            outcome = "interrupted"
            try:
                self._features()
                for engine in self.engines:
                    self._fit(engine)
                    self._encode(engine)
                    with self._timed("index"):
                        self.summary.indexed[engine.name] = save_index(self.archive, engine, self.ledger).slides
                outcome = "failed slides" if self.summary.failures else "done"
            except SlideseekError:
                outcome = "error"
                raise
            finally:
                self.catalog.finish_run(run, outcome, self.summary.counts)
        return self.summary

    def _features(self) -> None:
        slides = list(self.catalog.slides)
        self.reporter.phase("features", len(slides))
        with self._timed("features"):
            for slide in slides:
                self.reporter.begin(slide.id)
                report = self._features_of(slide)
                self.summary.counts[report.outcome] += 1
                self._tell(report)

    def _features_of(self, slide: SlideRow) -> SlideReport:
        """Bring one slide's features up to date for every engine, opening the file at most once."""
        reports = []
        failed: dict[str, SlideReport] = {}  # by settings, so that engines that share a stage fail it once
        with _Pixels(self.archive, slide) as pixels:
            for engine in self.engines:
                before = failed.get(engine.select_settings) or failed.get(engine.feature_settings)
                if before is not None:
                    reports.append(before)
                elif self.ledger.done(engine, "featurize", slide):
                    reports.append(SlideReport(slide.id, "skipped"))
                elif (record := self.ledger.record(engine, "select", slide)) and record.status == "empty":
                    reports.append(SlideReport(slide.id, "failed", record.cause, record.fix))
                else:
                    stage, report = self._select_and_featurize(engine, slide, pixels)
                    if report.outcome == "failed":
                        failed[self.ledger.settings(engine, stage)] = report
                    reports.append(report)
        rank = ("failed", "ok", "skipped")
        return min(reports, key=lambda report: rank.index(report.outcome))

    def _select_and_featurize(self, engine: Engine, slide: SlideRow, pixels: _Pixels) -> tuple[Stage, SlideReport]:
        """Run the two stages that need pixels; return the last one run and how it went."""

        def select() -> Payload:
            opened = pixels.opened()
            key = self.ledger.key(engine, "select", slide)
            return self.ledger.sound(key) or pack_patches(key, engine.select(opened), opened.mpp)

        def featurize() -> Payload:
            opened = pixels.opened()
            key = self.ledger.key(engine, "featurize", slide)
            if found := self.ledger.sound(key):
                return found
            chosen = self.catalog.payload(self.ledger.key(engine, "select", slide))
            if chosen is None:
                raise DamagedError(f"the patches of slide {slide.id!r} are gone", "run 'slideseek build' again")
            patches = unpack_patches(chosen, slide.id)
            bag = engine.featurize(opened, patches, slide.record.site)
            folder = f"features/{engine.feature_settings[:16]}"
            return store_features(self.archive.root, folder, key, bag, patches, opened.mpp)

        with self._attempt(engine, "select", slide, pixels) as attempt:
            attempt.payload = select()
        if attempt.report.outcome == "failed":
            return "select", attempt.report
        with self._attempt(engine, "featurize", slide, pixels) as attempt:
            attempt.payload = featurize()
        return "featurize", attempt.report

    def _heal(self, engine: Engine, slide: SlideRow, key: str) -> None:
        """Compute features again whose file is missing or damaged, before something is learnt or made from them."""
        if self.ledger.sound(key) is None:
            with self.catalog.transaction():
                self.catalog.drop_payload(key)
            self._features_of(slide)

    def _fit(self, engine: Engine) -> None:
        encoder = engine.trainable
        if encoder is None:
            return
        ready = self.ledger.ready(engine)
        model = self.catalog.model(engine.encoder_settings)
        if model is not None and not self.refit:
            load_model(self.archive.root, encoder, model)
            if model.slides != len(ready):
                self.reporter.note(
                    f"engine {engine.name!r}: its model was fitted on {model.slides} slides and the archive has"
                    f" {len(ready)}; pass --refit to learn from all"
                )
            return
        if not ready:
            raise SlideseekError(
                f"engine {engine.name!r}: no slide with features to fit {engine.config.encoder.use!r} on",
                "add slides, or mend the failed ones",
            )
        self.reporter.note(f"engine {engine.name!r}: fitting {engine.config.encoder.use!r} on {len(ready)} slides")
        with self._timed("fit"):
            started = time.perf_counter()
            for slide, key in ready:
                self._heal(engine, slide, key)
            records = [slide.record for slide, _ in ready]
            groups = [record.patient or record.id for record in records]
            labels = [record.label for record in records]
            encoder.fit(ArchiveBags(self.archive, [(s.record, key) for s, key in ready]), labels, groups)
            learnt_from = [[key, s.record.site, s.record.label, group] for (s, key), group in zip(ready, groups)]
            key = digest([engine.encoder_settings, learnt_from])
            seconds = time.perf_counter() - started
            row = save_model(self.archive.root, encoder, engine.encoder_settings, key, len(ready), seconds)
            with self.catalog.transaction():
                self.catalog.put_model(row)

    def _encode(self, engine: Engine) -> None:
        todo = [
            (slide, key)
            for slide, key in self.ledger.ready(engine)
            if not self.ledger.done(engine, "encode", slide)
        ]
        if not todo:
            return
        self.reporter.phase(f"codes of {engine.name}", len(todo))
        with self._timed("encode"):
            for slide, feature_key in todo:
                self.reporter.begin(slide.id)
                with self._attempt(engine, "encode", slide) as attempt:
                    key = self.ledger.key(engine, "encode", slide)
                    attempt.payload = self.ledger.sound(key)
                    if attempt.payload is None:
                        self._heal(engine, slide, feature_key)
                        code = engine.encode(self.archive.bag(feature_key, slide.record))
                        attempt.payload = pack_code(key, code, engine.spec)
                self._tell(attempt.report)

    @contextmanager
    def _attempt(
        self, engine: Engine, stage: Stage, slide: SlideRow, pixels: _Pixels | None = None
    ) -> Iterator[_Attempt]:
        """Run one stage of one slide: keep its result, or the cause of its failure, in one commit.

        A component may raise anything; for a bad slide that is one line and the run goes on.
        """
        started = time.perf_counter()
        attempt = _Attempt(SlideReport(slide.id, "ok"))
        cause = fix = ""
        try:
            yield attempt
        except SlideseekError as error:
            cause, fix = error.cause, error.fix
        except Exception as error:
            if os.environ.get(DEBUG_VARIABLE):
                raise
            cause, fix = f"{stage} crashed ({one_line(error)})", f"set {DEBUG_VARIABLE}=1 to see where, and report it"
        payload = attempt.payload
        items = int(payload.meta.get("n", payload.meta.get("rows", 0))) if payload else 0
        empty = stage == "select" and payload is not None and items == 0
        if empty:
            cause, fix = NO_TISSUE
        seconds = time.perf_counter() - started
        self.summary.stage_seconds.setdefault(stage, []).append(seconds)
        opened = pixels.opened_already if pixels else None
        record = StageRecord(
            slide.id,
            stage,
            self.ledger.settings(engine, stage),
            self.ledger.key(engine, stage, slide),
            "empty" if empty else "failed" if cause else "done",
            cause,
            fix,
            notes=tuple(opened.notes) if opened else (),
            seconds=seconds,
            items=items,
            bytes=self._size(payload),
            unreadable=opened.unreadable if opened else 0,
            filled=opened.filled if opened else 0,
        )
        self.ledger.keep(record, payload if empty or not cause else None)
        attempt.report = SlideReport(slide.id, "failed" if cause else "ok", cause, fix, record.notes)

    def _size(self, payload: Payload | None) -> int:
        if payload is None:
            return 0
        return (self.archive.root / payload.file).stat().st_size if payload.file else len(payload.data or b"")

    def _tell(self, report: SlideReport) -> None:
        if report.outcome == "failed":
            self.summary.failures[report.slide_id] = report
        self.reporter.slide(report)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds = self.summary.seconds
        seconds[phase] = seconds.get(phase, 0.0) + time.perf_counter() - started


@dataclass(slots=True)
class _Attempt:
    """One stage of one slide under way: the result, once there is one, and how it went, once it is kept."""

    report: SlideReport
    payload: Payload | None = None


class _Pixels:
    """A slide's file, opened when first needed and closed at the end; a failure to open is not tried twice."""

    def __init__(self, archive: Archive, slide: SlideRow) -> None:
        self._path = archive.slide_path(slide.record)
        self._slide = slide
        self._error: SlideError | None = None
        self.opened_already: PyramidSlide | None = None

    def opened(self) -> PyramidSlide:
        """Return the open slide."""
        if self._error:
            raise self._error
        if self.opened_already is None:
            try:
                self.opened_already = open_slide(self._path, self._slide.id, self._slide.record.mpp)
            except SlideError as error:
                self._error = error
                raise
        return self.opened_already

    def __enter__(self) -> _Pixels:
        return self

    def __exit__(self, *_: object) -> None:
        if self.opened_already is not None:
            self.opened_already.close()
