"""Fit an engine's encoder on stored features. It needs no catalogue, so an executor may run it in another process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slideseek.archive.bags import ArchiveBags
from slideseek.archive.models import load_model, save_model
from slideseek.archive.payloads import load_bag
from slideseek.archive.records import ModelRow, Payload
from slideseek.digests import digest
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.interfaces import Progress
from slideseek.types import Bag, SlideRecord


@dataclass(frozen=True, slots=True)
class FitWork:
    """A fit. root: the archive's folder. slides: each with the key of its features, which are in `features`.

    learnt_from: digest of the training data. plugins: plugin files of the archive.
    """

    engine: Engine
    root: Path
    slides: tuple[tuple[SlideRecord, str], ...]
    features: Mapping[str, Payload]
    learnt_from: str
    plugins: tuple[str, ...] = ()

    @property
    def training(self) -> Path:
        """The folder of checkpoints and logs, named by its training data: a killed training is found again."""
        return self.root / "training" / digest([self.engine.encoder_digest, self.learnt_from])[:24]

    def run(self, progress: Progress) -> ModelRow:
        """Fit, save the model, check that it can be loaded, and return its record."""
        engine, training, started = self.engine, self.training, time.perf_counter()
        if engine.trainable is None:
            raise SlideseekError(f"engine {engine.name!r} has nothing to fit", "build again")
        bags = ArchiveBags(self._bag, self.slides)
        labels = [record.label for record, _ in self.slides]
        groups = [record.patient or record.id for record, _ in self.slides]  # no patient: a patient of its own
        training.mkdir(parents=True, exist_ok=True)
        try:
            engine.fit(bags, labels, groups, training, progress)
        finally:
            if not any(training.iterdir()):  # no checkpoint, or a rejected fit: nothing is left behind
                training.rmdir()
        facts = (engine.encoder_digest, self.learnt_from, len(bags), time.perf_counter() - started)
        row = engine.owner("encoder").call("save()", save_model, self.root, engine.trainable, *facts)
        if (bag := next((bag for bag in bags if len(bag)), None)) is not None:
            engine.check_saved(lambda fresh: load_model(self.root, fresh, row), bag)
        return row

    def _bag(self, key: str, record: SlideRecord, trusted: bool) -> Bag:
        return load_bag(self.root, self.features[key], record.id, record.site, trusted)
