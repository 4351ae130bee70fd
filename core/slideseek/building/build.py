"""Build an archive: run the missing stages slide by slide, and report on each slide.

Every result is stored under a key of its content and settings and is committed before it is reported. A killed run
therefore continues where it stopped, and engines that share a stage share its results.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from slideseek.archive.archive import CONFIG_KEPT, Archive
from slideseek.archive.file_changes import named, take_in_changes
from slideseek.archive.files import remove
from slideseek.archive.models import keep_training_logs, load_model, model_is_whole
from slideseek.archive.recorded_stages import KnownFailure, ReadySlide
from slideseek.archive.records import ModelRow
from slideseek.archive.slide_table import ADD_AGAIN, DAMAGED, SlideRow
from slideseek.boundary import Owner
from slideseek.building.attempts import Attempts
from slideseek.building.encoding import EarlyCodes, Encoding
from slideseek.building.features import FeaturePhase
from slideseek.building.fit_work import FitWork
from slideseek.building.index_saving import save_early, save_index
from slideseek.building.recompute import RecomputeStage, drop_for_recompute, drop_of_changed_readers
from slideseek.building.reporting import BuildSummary, Reporter, SlideReport
from slideseek.building.run_report import write_run_report
from slideseek.config import CONFIG_NAME, ComponentConfig, default_config, make_component, parse_config
from slideseek.digests import digest
from slideseek.engine import Engine, make_engine, pack_resolved, signature
from slideseek.errors import DamagedError, SlideseekError
from slideseek.indexing.live_index import changed_makers
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import Executor, FitsElsewhere, implements
from slideseek.types import Bag
from slideseek.version import __version__


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to build; none of it changes a result.

    refit: fit trainable encoders again. executor: what runs the work, by default what the configuration names. workers,
    patience: options of the executor, by default as configured. verify: first check everything stored against its
    SHA-256 and every slide file against its fingerprint, and recompute what is damaged or was replaced. leave_out: ids
    of slides whose files must not be read now. recompute: stages to compute again, with all that depends on them,
    although nothing has changed. shard: (part, parts), compute only the features of this part of the slides, from 1
    to `parts`, and leave them for the next build: the catalogue is only read.
    """

    refit: bool = False
    recompute: tuple[RecomputeStage, ...] = ()
    executor: str = ""
    workers: int | None = None
    patience: float | None = None
    verify: bool = False
    leave_out: frozenset[str] = frozenset()
    shard: tuple[int, int] | None = None


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
        self._attempts = Attempts(self.stages, self.summary, commit=self.options.shard is None)
        self._encoding = Encoding(self.stages, self._attempts, self._bag)
        self._early: EarlyCodes | None = None
        self._from_scratch: set[str] = set()
        self._loaded: set[str] = set()
        self._nothing_to_do = False
        self._passing: set[str] = set()

    @cached_property
    def _pixels(self) -> FeaturePhase:
        """The phase that reads slides, with the engines as they are when it begins."""
        leave = self.options.shard is not None
        return FeaturePhase(self.archive, self.engines, self.stages, self._attempts, self._executor, leave)

    @cached_property
    def _executor(self) -> tuple[Owner, Executor]:
        """Return what runs the work, and who answers for it; a shard is computed by this process."""
        options, config = self.options, self.archive.config.executor
        if config is None or options.shard:
            config = parse_config(default_config()).executor
        if config is None or options.executor not in ("", config.use):
            config = ComponentConfig("executor", options.executor, {})
        given = {"workers": options.workers, "patience": options.patience}
        chosen = {**config.options, **{name: value for name, value in given.items() if value is not None}}
        registry = self.archive.registry(("executor",))
        made: Executor = make_component(registry, replace(config, options=chosen), "executor")
        return Owner.of(registry, "executor", config.use), made

    def run(self) -> BuildSummary:
        """Select and featurize every slide, then fit, encode and index for each engine."""
        if self.options.shard:
            self._compute_shard(*self.options.shard)
            return self.summary
        with self.archive.writing():
            config = json.dumps({engine.name: engine.resolved.settings for engine in self.engines}, sort_keys=True)
            versions = {"slideseek": __version__, "python": platform.python_version()}
            run = self.catalog.start_run("build", config, versions)
            outcome = "interrupted"
            try:
                self._take_in_changes()
                if not self._idle():
                    self._make_engines()
                self._report_changed_makers()
                drop_for_recompute(self.archive, self.engines, self.stages, self.options.recompute)
                self._keep_engines()
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

    def _make_engines(self) -> None:
        """Import the components: engines recalled from the last build have not done so yet."""
        self.engines = [one if one.made else make_engine(one.config, one.registry) for one in self.engines]

    def _compute_shard(self, part: int, parts: int) -> None:
        """Compute the features of one part of the slides: every so many of their contents, so none is in two parts."""
        self._make_engines()
        share = set(sorted({repr(row.content) for row in self.catalog.slides})[part - 1 :: parts])
        slides = [row for row in self.catalog.slides.some(self._lacking()) if repr(row.content) in share]
        self.reporter.phase(f"features {part}/{parts}", len(slides))
        with self.summary.timed("features"):
            for report in self._pixels.run(slides, self.reporter.begin):
                self.summary.counts[report.outcome] += 1
                self._show(report)

    def _take_in_changes(self) -> None:
        """Notice slide files that were replaced or touched since they were added, and readers that have changed."""
        sets = [engine.select_digest for engine in self.engines if engine.resolved.imported]

        def imported(slide_id: str) -> bool:
            return any(self.catalog.stage(slide_id, "select", settings) for settings in sets)

        with self.summary.timed("files"):
            changes = take_in_changes(self.archive, imported, self.options.verify, self.options.leave_out)
            read = drop_of_changed_readers(self.archive, self.engines, self.stages)
        for note in (*changes.notes(), *read):
            self._note(note)

    def _keep_engines(self) -> None:
        """Remember how the engines are built, so that a search finds their results without importing components."""
        with self.catalog.transaction():
            for engine in self.engines:
                made_of = signature(engine.config, engine.registry)
                self.catalog.put_engine(engine.name, made_of, pack_resolved(engine.resolved))
            file = self.archive.root / CONFIG_NAME
            kept = {"text": file.read_text(encoding="utf-8"), "mtime_ns": file.stat().st_mtime_ns}
            self.catalog.put_engine(CONFIG_KEPT, "", kept)

    def _report_changed_makers(self) -> None:
        """Note every component whose code has changed: what it made is computed again, with all that depends on it."""
        for engine in self.engines:
            for kind, change in changed_makers(self.archive, engine).items():
                again = {"selector": "patches, features and codes", "featurizer": "features and codes"}
                what = again.get(kind, "codes" if kind == "encoder" else "")
                if what:
                    self._note(f"engine {engine.name!r}: {change}; its {what} are computed again")

    def _verify(self) -> None:
        """Drop every stored result that is outdated or damaged; it is computed again."""
        for engine in self.engines:
            codes = self.stages.settings_digest(engine, "encode")
            keys = [payload.key for _, payload in self.catalog.codes(codes)]
            for slide, key in self.stages.ready(engine):
                selection = self.stages.key(engine, "select", slide)
                if self.catalog.has_payload(selection) and self.stages.sound(selection) is None:
                    self.stages.drop(selection)
                    self.stages.drop(key)  # the two are computed together
                elif key == self.stages.key(engine, "featurize", slide):
                    keys.append(key)
                else:
                    with self.catalog.transaction():
                        self.catalog.forget_stages(slide.id, ("featurize", "encode"))
            for key in keys:
                if self.stages.sound(key) is None:
                    self.stages.drop(key)

    def _idle(self) -> bool:
        """Return whether nothing is left to compute, so that no component has to be imported to say so."""
        if self.options.refit or self.options.verify or self.options.recompute:
            return False
        self._nothing_to_do = not self._lacking() and not any(map(self._codes_missing, self.engines))
        return self._nothing_to_do

    def _codes_missing(self, engine: Engine) -> bool:
        """Return whether an engine has to be fitted, or has slides to encode."""
        codes = self.stages.settings_digest(engine, "encode")
        model = self.catalog.model(engine.encoder_digest) if engine.resolved.trainable else None
        if engine.resolved.trainable and not model_is_whole(self.archive.root, model):
            return True
        todo = self.catalog.work.to_encode(engine.feature_digest, codes)
        return bool(todo and set(todo).difference(self.catalog.work.known_failures([codes])))

    def _lacking(self) -> list[str]:
        """Return the slides whose features are to be computed now, sorted: not those with a known failure."""
        return [
            slide_id
            for slide_id in self.stages.without_features(self.engines)
            if slide_id not in self.options.leave_out
        ]

    def _codes_and_index(self, engine: Engine) -> SlideseekError | None:
        """Fit, encode and index for one engine; return an error that stops it, so the others can go on."""
        try:
            if not self._nothing_to_do:
                self._fit(engine)
            elif model := self.catalog.model(engine.encoder_digest):
                self._compare_training_data(engine, model)
            self._encode(engine)
            with self.summary.timed("index"):
                scratch = engine.name in self._from_scratch
                slides = save_index(self.archive, engine, self.stages, self._note, self.options.verify, scratch)
        except SlideseekError as error:
            self._note(f"engine {engine.name!r} stopped: {error}")
            return error
        self.summary.indexed[engine.name] = slides
        return None

    def _features(self) -> None:
        with self.summary.timed("features"):
            ids = self.catalog.slides.ids()
            self.reporter.phase("features", len(ids))
            damaged = self.catalog.slides.damaged()
            for slide_id in damaged:
                self.summary.counts["failed"] += 1
                self._show(SlideReport(slide_id, "failed", DAMAGED.format(slide_id), ADD_AGAIN))
            lacking = [slide_id for slide_id in self._lacking() if slide_id not in damaged]
            tried = {*lacking, *damaged}
            known = {slide_id: one for slide_id, one in self._known().items() if slide_id not in tried}
            out = tried.union(known, self.options.leave_out)
            done = [slide_id for slide_id in ids if slide_id not in out] if out else ids
            if done:
                self.reporter.skip(done)
                self.summary.counts["skipped"] += len(done)
            self._show_known(known)
            if lacking:
                self._early = EarlyCodes(self._ready_engines(), self._encoding, self.stages, self._save_early)
                for report in self._pixels.run(self.catalog.slides.some(lacking), self.reporter.begin):
                    self.summary.counts[report.outcome] += 1
                    self._show(report)
                    if report.outcome != "failed":
                        self._early.add(report.slide_id)
            # A file rewritten for one slide may have held the features of another slide with the same content.
            left = self.stages.without_records(self.engines) if lacking else []
            missing = [slide_id for slide_id in left if slide_id not in out]
            for report in self._pixels.run(self.catalog.slides.some(missing), self.reporter.begin) if missing else ():
                self._show(report)
            if lacking:
                self._pixels.clear_parts(self.catalog.slides.some(self.stages.without_records(self.engines)))

    def _known(self) -> dict[str, KnownFailure]:
        """Return the known failures of features, by slide."""
        settings = {name for engine in self.engines for name in (engine.select_digest, engine.feature_digest)}
        return self.catalog.work.known_failures(settings)

    def _show_known(self, known: Mapping[str, KnownFailure]) -> None:
        """Report slides whose failure was accepted: they are not tried again."""
        for slide_id, failure in sorted(known.items()):
            self.summary.known[slide_id] = SlideReport(slide_id, "known", failure.shown)
            self.reporter.slide(self.summary.known[slide_id])

    def _ready_engines(self) -> list[Engine]:
        """Return the engines that can encode before all features are computed: nothing is to be fitted first."""
        ready = []
        for engine in self.engines:
            if engine.trainable is None or (not self.options.refit and self._load(engine)):
                ready.append(engine)
            elif self.catalog.model(engine.encoder_digest) is None:
                self._note(
                    f"engine {engine.name!r}: its encoder is fitted on all slides first, so it finds nothing until the"
                    " features of all slides are computed"
                )
        return ready

    def _save_early(self, engine: Engine) -> None:
        """Save an engine's index while features are computed, where a search would otherwise be slow."""
        if save_early(self.archive, engine, self.stages, self._note, engine.name in self._from_scratch):
            self._from_scratch.add(engine.name)

    def _load(self, engine: Engine) -> bool:
        """Load the model of a trainable encoder; return whether there is one that can be used."""
        encoder, model = engine.trainable, self.catalog.model(engine.encoder_digest)
        if encoder is None or model is None:
            return False
        if engine.name in self._loaded:
            return True
        try:
            engine.owner("encoder").call("load()", load_model, self.archive.root, encoder, model)
        except DamagedError as error:
            self._note(f"engine {engine.name!r}: {error.cause}; it is fitted again")
            with self.catalog.transaction():
                self.catalog.drop_model(engine.encoder_digest)
            return False
        self._loaded.add(engine.name)
        return True

    def _compare_training_data(self, engine: Engine, model: ModelRow) -> None:
        """Note that a model was fitted on other slides or labels than the archive has now."""
        known = self.catalog.work.ready(engine.feature_digest)
        if model.learnt_from != _learnt_from(known):
            self._note(
                f"engine {engine.name!r}: its model was fitted on {model.slides} slides; the archive now has"
                f" {len(known)}, or other labels: pass --refit to fit on the current slides"
            )

    def _fit(self, engine: Engine) -> None:
        encoder = engine.trainable
        if encoder is None:
            return
        model = self.catalog.model(engine.encoder_digest)
        if model is not None and not self.options.refit and self._load(engine):
            self._compare_training_data(engine, model)
            return
        for slide, key in self.stages.ready(engine):
            self._heal(slide, key)
        ready = self.stages.ready(engine)
        if self._passing:
            raise SlideseekError(
                f"engine {engine.name!r}: {engine.config.encoder.use!r} is not fitted, since a disk failed with"
                f" {named(sorted(self._passing))}: the model would lack it",
                "check the disks and their free space, then run the same command again",
            )
        if not ready:
            raise SlideseekError(
                f"engine {engine.name!r}: no slide with features to fit {engine.config.encoder.use!r} on",
                "add slides, or fix the failed ones",
            )
        self._note(f"engine {engine.name!r}: fitting {engine.config.encoder.use!r} on {len(ready)} slides")
        with self.summary.timed("fit"):
            slides = tuple((slide.record, key) for slide, key in ready)
            stored = {key: payload for _, key in ready if (payload := self.catalog.payload(key))}
            learnt_from = _learnt_from(self.catalog.work.ready(engine.feature_digest))
            work = FitWork(engine, self.archive.root, slides, stored, learnt_from, self.archive.config.plugins)
            progress, (owner, executor) = partial(self.reporter.epoch, engine.name), self._executor
            far = owner.call("fit()", executor.fit, work, progress) if implements(executor, FitsElsewhere) else None
            row: ModelRow = far or work.run(progress)
            with self.catalog.transaction():
                self.catalog.put_model(row)
            if work.training.exists():
                keep_training_logs(work.training, self.archive.root / row.folder)
            if model is not None and model.folder != row.folder:
                remove(self.archive.root / model.folder)
            if far:
                owner.call("fit()", load_model, self.archive.root, encoder, row)

    def _encode(self, engine: Engine) -> None:
        """Encode what is left, and report it with what was encoded while features were computed."""
        early = self._early.reports.get(engine.name, []) if self._early else []
        codes = self.stages.settings_digest(engine, "encode")
        known = self.catalog.work.known_failures([codes])
        tried = {report.slide_id for report in early}
        left = self.catalog.work.to_encode(engine.feature_digest, codes)
        todo = [slide_id for slide_id in left if slide_id not in tried and slide_id not in known]
        self._show_known({slide_id: known[slide_id] for slide_id in left if slide_id in known})
        if not early and not todo:
            return
        self.reporter.phase(f"codes of {engine.name}", len(early) + len(todo), brief=True)
        for report in early:
            self._show(report)
        with self.summary.timed("encode"):
            for report in self._encoding.run(engine, todo, self.reporter.begin):
                self._show(report)

    def _bag(self, engine: Engine, slide: SlideRow) -> Bag:
        """Return a slide's features, computed again first if their file is missing or damaged."""
        key = self.stages.key(engine, "featurize", slide)
        self._heal(slide, key)
        return self.archive.bag(key, slide.record)

    def _heal(self, slide: SlideRow, key: str) -> None:
        """Recompute features whose file is missing or damaged, before they are used for fitting or encoding."""
        if self.stages.sound(key) is None:
            self.stages.drop(key)
            for report in self._pixels.run([slide], self.reporter.begin):
                if report.outcome == "failed":
                    self._show(report)

    def _note(self, text: str) -> None:
        self.summary.notes.append(text)
        self.reporter.note(text)

    def _show(self, report: SlideReport) -> None:
        self.summary.notes.extend(f"{report.slide_id}: {note}" for note in report.notes)
        if report.outcome == "failed":
            self.summary.failures[report.slide_id] = report
            if report.passing:
                self._passing.add(report.slide_id)
        self.reporter.slide(report)


def _learnt_from(ready: Sequence[ReadySlide]) -> str:
    """Return the digest of a model's training data: the features, sites, labels and patients of its slides."""
    return digest([[slide.key, slide.site, slide.label, slide.patient or slide.slide_id] for slide in ready])
