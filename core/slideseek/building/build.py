"""Build an archive: run the missing stages slide by slide, and report on each slide.

Every result is stored under a key of its content and settings and is committed before it is reported. A killed run
therefore continues where it stopped, and engines that share a stage share its results.
"""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

from slideseek.archive.archive import Archive
from slideseek.archive.bags import ArchiveBags
from slideseek.archive.models import keep_training_logs, load_model, save_model
from slideseek.archive.payloads import pack_code
from slideseek.archive.recorded_stages import ReadySlide
from slideseek.archive.slide_table import SlideRow
from slideseek.building.attempts import Attempts
from slideseek.building.features import FeaturePhase
from slideseek.building.index_saving import save_index
from slideseek.building.prefetch import as_slide_error
from slideseek.building.reporting import BuildSummary, Reporter, SlideReport
from slideseek.building.run_report import write_run_report
from slideseek.digests import digest
from slideseek.engine import Engine, pack_resolved, signature
from slideseek.errors import DamagedError, SlideseekError
from slideseek.indexing.live_index import changed_makers, open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.types import Bag, Code
from slideseek.version import __version__

RecomputeStage: TypeAlias = Literal["select", "featurize", "fit", "encode", "index"]

ENCODE_BATCH, ENCODE_BYTES = 16, 64 * 2**20
"""Slides encoded together at most, and bytes of their features: enough to share the cost of a pass."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to build; none of it changes a result.

    refit: fit trainable encoders again. workers: slides read ahead, 0 for none. patience: seconds without progress
    before giving up on reading a slide. verify: first check everything stored against its SHA-256, and recompute what
    is damaged. recompute: stages to compute again, with all that depends on them, although nothing has changed.
    """

    refit: bool = False
    recompute: tuple[RecomputeStage, ...] = ()
    workers: int = 1
    patience: float = 600.0
    verify: bool = False


class Builder:
    """Run the stages of several engines on an archive."""

    def __init__(
        self, archive: Archive, engines: Sequence[Engine], reporter: Reporter, options: BuildOptions | None = None
    ) -> None:
        self.archive = archive
        self.catalog = archive.catalog
        self.engines = engines
        self.reporter = reporter
        self.options = options or BuildOptions()
        self.summary = BuildSummary()
        self.stages = StageCache(archive, self._note)
        self._attempts = Attempts(self.stages, self.summary)
        self._pixels = FeaturePhase(
            archive, engines, self.stages, self._attempts, self.options.workers, self.options.patience
        )

    def run(self) -> BuildSummary:
        """Select and featurize every slide, then fit, encode and index for each engine."""
        with self.archive.writing():
            config = json.dumps({engine.name: engine.resolved.settings for engine in self.engines}, sort_keys=True)
            versions = {"slideseek": __version__, "python": platform.python_version()}
            run = self.catalog.start_run("build", config, versions)
            self._report_changed_makers()
            self._drop_for_recompute()
            with self.catalog.transaction():
                for engine in self.engines:
                    self.catalog.put_engine(
                        engine.name, signature(engine.config, engine.registry), pack_resolved(engine.resolved)
                    )
            outcome = "interrupted"
            try:
                if self.options.verify:
                    self._verify()
                self._features()
                failed = [error for engine in self.engines if (error := self._codes_and_index(engine))]
                if failed:
                    raise failed[0]
                outcome = "failed slides" if self.summary.failures else "done"
            except SlideseekError:
                outcome = "error"
                raise
            finally:
                self.catalog.finish_run(run, outcome, self.summary.counts)
                self.summary.report = write_run_report(
                    self.archive, run, outcome, self.summary, self.engines, self.summary.notes
                )
        return self.summary

    def _report_changed_makers(self) -> None:
        """Note every component whose code has changed: what it made is computed again, with all that depends on it."""
        for engine in self.engines:
            for kind, change in changed_makers(self.archive, engine).items():
                again = {"selector": "patches, features and codes", "featurizer": "features and codes"}
                what = again.get(kind, "codes" if kind == "encoder" else "")
                if what:
                    self._note(f"engine {engine.name!r}: {change}; its {what} are computed again")

    def _drop_for_recompute(self) -> None:
        """Drop what was asked to be computed again, and all that depends on it, in every engine that shares it."""
        order: tuple[RecomputeStage, ...] = get_args(RecomputeStage)
        if not self.options.recompute:
            return
        first = order[min(map(order.index, self.options.recompute))]
        pixels = {"select", "featurize"}
        with self.catalog.transaction():
            for engine in self._sharing(first) if first in pixels else self.engines:
                codes = self.stages.settings_digest(engine, "encode")
                self.catalog.drop_index(engine.name)
                if first != "index":
                    self.catalog.drop_results("encode", codes)
                if first in pixels | {"fit"}:
                    self.catalog.drop_model(engine.encoder_digest)
                if first in pixels:
                    self.catalog.drop_results("featurize", engine.feature_digest)
                if first == "select":
                    self.catalog.drop_results("select", engine.select_digest)

    def _sharing(self, first: RecomputeStage) -> list[Engine]:
        """Return the engines of the archive that share patches, or features, with one that is built."""
        found: list[Engine] = list(self.engines)
        for config in self.archive.config.engines:
            with suppress(SlideseekError):  # an engine that cannot be used has nothing to keep up to date
                other = open_engine(self.archive, config, self.engines[0].registry)
                same = [one.select_digest if first == "select" else one.feature_digest for one in self.engines]
                if (other.select_digest if first == "select" else other.feature_digest) in same:
                    found.append(other)
        return list({engine.name: engine for engine in found}.values())

    def _verify(self) -> None:
        """Drop every stored result that is outdated or damaged; it is computed again."""
        for engine in self.engines:
            codes = self.stages.settings_digest(engine, "encode")
            keys = [payload.key for _, payload in self.catalog.codes(codes)]
            for slide, key in self.stages.ready(engine):
                if key == self.stages.key(engine, "featurize", slide):
                    keys.append(key)
                else:
                    with self.catalog.transaction():
                        self.catalog.forget_stages(slide.id, ("featurize", "encode"))
            for key in keys:
                if self.stages.sound(key) is None:
                    self.stages.drop(key)

    def _codes_and_index(self, engine: Engine) -> SlideseekError | None:
        """Fit, encode and index for one engine; return an error that stops it, so the others can go on."""
        try:
            self._fit(engine)
            self._encode(engine)
            with self.summary.timed("index"):
                slides = save_index(self.archive, engine, self.stages, self._note, self.options.verify)
        except SlideseekError as error:
            self._note(f"engine {engine.name!r} stopped: {error}")
            return error
        self.summary.indexed[engine.name] = slides
        return None

    def _features(self) -> None:
        with self.summary.timed("features"):
            ids = self.catalog.slides.ids()
            self.reporter.phase("features", len(ids))
            lacking = self.stages.without_features(self.engines)
            tried = set(lacking)
            done = [slide_id for slide_id in ids if slide_id not in tried] if lacking else ids
            if done:
                self.reporter.skip(done)
                self.summary.counts["skipped"] += len(done)
            for report in self._pixels.run(self.catalog.slides.some(lacking), self.reporter.begin):
                self.summary.counts[report.outcome] += 1
                self._show(report)
            # A file rewritten for one slide may have held the features of another slide with the same content.
            left = self.stages.without_records(self.engines) if lacking else []
            missing = [slide_id for slide_id in left if slide_id not in tried]
            for report in self._pixels.run(self.catalog.slides.some(missing), self.reporter.begin):
                self._show(report)

    def _fit(self, engine: Engine) -> None:
        encoder = engine.trainable
        if encoder is None:
            return
        owner = engine.owner("encoder")
        known = self.catalog.work.ready(engine.feature_digest)
        model = self.catalog.model(engine.encoder_digest)
        if model is not None and not self.options.refit:
            try:
                owner.call("load()", load_model, self.archive.root, encoder, model)
                if model.learnt_from != _learnt_from(known):
                    self._note(
                        f"engine {engine.name!r}: its model was fitted on {model.slides} slides; the archive now has"
                        f" {len(known)}, or other labels: pass --refit to fit on the current slides"
                    )
                return
            except DamagedError as error:
                self._note(f"engine {engine.name!r}: {error.cause}; it is fitted again")
        for slide, key in self.stages.ready(engine):
            self._heal(slide, key)
        ready = self.stages.ready(engine)
        if not ready:
            raise SlideseekError(
                f"engine {engine.name!r}: no slide with features to fit {engine.config.encoder.use!r} on",
                "add slides, or fix the failed ones",
            )
        self._note(f"engine {engine.name!r}: fitting {engine.config.encoder.use!r} on {len(ready)} slides")
        with self.summary.timed("fit"):
            started = time.perf_counter()
            bags = ArchiveBags(self.archive, [(slide.record, key) for slide, key in ready])
            labels = [slide.record.label for slide, _ in ready]
            groups = [slide.record.patient or slide.id for slide, _ in ready]  # no patient: a patient of its own
            learnt_from = _learnt_from(self.catalog.work.ready(engine.feature_digest))
            # Named by its training data: a killed training is found again, and only that one.
            training = self.archive.root / "training" / digest([engine.encoder_digest, learnt_from])[:24]
            training.mkdir(parents=True, exist_ok=True)
            try:
                engine.fit(bags, labels, groups, training, partial(self.reporter.epoch, engine.name))
            finally:
                if not any(training.iterdir()):  # no checkpoint, or a rejected fit: nothing is left behind
                    training.rmdir()
            seconds = time.perf_counter() - started
            row = owner.call(
                "save()",
                save_model,
                *(self.archive.root, encoder, engine.encoder_digest, learnt_from, len(ready), seconds),
            )
            with self.catalog.transaction():
                self.catalog.put_model(row)
            if training.exists():
                keep_training_logs(training, self.archive.root / row.folder)
            if model is not None and model.folder != row.folder:
                shutil.rmtree(self.archive.root / model.folder, ignore_errors=True)

    def _encode(self, engine: Engine) -> None:
        todo = self.catalog.work.to_encode(engine.feature_digest, self.stages.settings_digest(engine, "encode"))
        if not todo:
            return
        self.reporter.phase(f"codes of {engine.name}", len(todo), brief=True)
        with self.summary.timed("encode"):
            for batch in self._batches(engine, self.catalog.slides.some(todo)):
                for report in self._encode_batch(engine, batch):
                    self._show(report)

    def _batches(self, engine: Engine, slides: Sequence[SlideRow]) -> Iterator[list[SlideRow]]:
        """Yield the slides to encode together: one by one unless the encoder takes several."""
        batch: list[SlideRow] = []
        held, most = 0, ENCODE_BATCH if engine.batches else 1
        for slide in slides:
            record = self.stages.record(engine, "featurize", slide)
            size = 4 * engine.width * record.items if record else 0
            if batch and (len(batch) == most or held + size > ENCODE_BYTES):
                yield batch
                batch, held = [], 0
            batch.append(slide)
            held += size
        if batch:
            yield batch

    def _encode_batch(self, engine: Engine, slides: Sequence[SlideRow]) -> Iterator[SlideReport]:
        """Encode some slides together where the encoder can, and commit them one by one."""
        together: dict[str, tuple[Code, float]] = {}
        if len(slides) > 1:
            started = time.perf_counter()
            # Whatever goes wrong in a batch, each slide is then encoded alone, and the one to blame is named.
            with suppress(SlideseekError):
                bags = [self._bag(engine, slide) for slide in slides if self._uncoded(engine, slide)]
                codes = engine.encode_many(bags)
                share = (time.perf_counter() - started) / max(1, len(codes))
                together = {code.slide_id: (code, share) for code in codes}
        for slide in slides:
            self.reporter.begin(slide.id)
            yield self._encode_one(engine, slide, together.get(slide.id))

    def _encode_one(self, engine: Engine, slide: SlideRow, made: tuple[Code, float] | None) -> SlideReport:
        """Keep a slide's code. made: the code and its share of the time, where the slide was encoded in a batch."""
        started = time.perf_counter()
        key = self.stages.key(engine, "encode", slide)
        try:
            payload = self.stages.sound(key)
            if payload is None:
                code = made[0] if made else engine.encode(self._bag(engine, slide))
                payload = pack_code(key, code, engine.spec)
        except Exception as error:
            failure = as_slide_error("encoding", error)
            return self._attempts.fail(engine, "encode", slide, failure, time.perf_counter() - started)
        seconds = time.perf_counter() - started + (made[1] if made else 0.0)
        return self._attempts.keep(engine, "encode", slide, payload, seconds)

    def _uncoded(self, engine: Engine, slide: SlideRow) -> bool:
        return self.catalog.payload(self.stages.key(engine, "encode", slide)) is None

    def _bag(self, engine: Engine, slide: SlideRow) -> Bag:
        """Return a slide's features, computed again first if their file is missing or damaged."""
        key = self.stages.key(engine, "featurize", slide)
        self._heal(slide, key)
        return self.archive.bag(key, slide.record)

    def _heal(self, slide: SlideRow, key: str) -> None:
        """Recompute features whose file is missing or damaged, before they are used for fitting or encoding."""
        if self.stages.sound(key) is None:
            self.stages.drop(key)
            list(self._pixels.run([slide], self.reporter.begin))

    def _note(self, text: str) -> None:
        self.summary.notes.append(text)
        self.reporter.note(text)

    def _show(self, report: SlideReport) -> None:
        self.summary.notes.extend(f"{report.slide_id}: {note}" for note in report.notes)
        if report.outcome == "failed":
            self.summary.failures[report.slide_id] = report
        self.reporter.slide(report)


def _learnt_from(ready: Sequence[ReadySlide]) -> str:
    """Return the digest of a model's training data: the features, sites, labels and patients of its slides."""
    return digest([[slide.key, slide.site, slide.label, slide.patient or slide.slide_id] for slide in ready])
