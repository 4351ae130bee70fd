"""Which stages are done: keys, records and payloads of an engine's stages in an archive."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import unpack_code, unpack_patches
from slideseek.archive.records import Payload, Stage, StageRecord
from slideseek.archive.slide_table import SlideRow
from slideseek.digests import digest
from slideseek.engine import Engine
from slideseek.errors import DamagedError
from slideseek.types import SlideRecord


def select_key(settings: str, slide: SlideRow) -> str:
    """Return the key of a selection: the selector's settings, the slide's content and its stated resolution."""
    return digest(["select", settings, slide.content, slide.record.mpp])


def feature_key(settings: str, selection: str) -> str:
    """Return the key of a slide's features: the settings up to the featurizer, and the selection's key."""
    return digest(["featurize", settings, selection])


def feature_folder(settings: str) -> str:
    """Return the folder of the feature files for some settings, relative to the archive's folder."""
    return f"features/{settings[:16]}"


class StageCache:
    """Decide whether a stage is done for a slide: by content and settings, never by "the file exists"."""

    def __init__(self, archive: Archive, note: Callable[[str], None]) -> None:
        self.archive = archive
        self.catalog = archive.catalog
        self._note = note

    def settings_digest(self, engine: Engine, stage: Stage) -> str:
        """Return the digest of the settings that affect a stage's result. Codes also depend on the fitted model."""
        if stage == "select":
            return engine.select_digest
        if stage == "featurize":
            return engine.feature_digest
        if not engine.resolved.trainable:
            return engine.encoder_digest
        model = self.catalog.model(engine.encoder_digest)
        return digest([engine.encoder_digest, model.key if model else ""])

    def key(self, engine: Engine, stage: Stage, slide: SlideRow) -> str:
        """Return the key of a stage's result for a slide: its settings and inputs."""
        settings = self.settings_digest(engine, stage)
        if stage == "select":
            # Imported data is keyed by its own content: the slide's pixels had no part in it.
            imported = engine.resolved.imported and self.catalog.stage(slide.id, stage, settings)
            return imported.key if imported else select_key(settings, slide)
        if stage == "featurize":
            return feature_key(settings, self.key(engine, "select", slide))
        return digest([stage, settings, self.key(engine, "featurize", slide), slide.record.site])

    def record(self, engine: Engine, stage: Stage, slide: SlideRow) -> StageRecord | None:
        """Return the record of a stage if it matches the slide's current content and settings."""
        found = self.catalog.stage(slide.id, stage, self.settings_digest(engine, stage))
        return found if found and found.key == self.key(engine, stage, slide) else None

    def done(self, engine: Engine, stage: Stage, slide: SlideRow) -> bool:
        """Return whether a stage's result is recorded and present."""
        found = self.catalog.finished(slide.id, stage, self.settings_digest(engine, stage))
        if found is None or found.key != self.key(engine, stage, slide):
            return False
        return found.file is None or (self.archive.root / found.file).is_file()

    def without_features(self, engines: Sequence[Engine]) -> list[str]:
        """Return the ids of slides without the features of some engine, sorted: not recorded, or the file is missing.

        Records are not compared with the slide's current content here: changing a slide already drops them.
        """
        lacking = set(self.without_records(engines))
        for settings in {engine.feature_digest for engine in engines}:
            folder = feature_folder(settings)
            there: list[str] = []
            with suppress(FileNotFoundError):
                there = os.listdir(self.archive.root / folder)  # noqa: PTH208 - 100,000 names, without Path objects
            for name in set(self.catalog.work.files(folder)).difference(there):
                lacking.update(self.catalog.work.owners(f"{folder}/{name}"))
        return sorted(lacking)

    def without_records(self, engines: Sequence[Engine], with_known: bool = False) -> list[str]:
        """Return the ids of slides without recorded features of some engine, sorted.

        Slides whose failure was accepted are left out, unless `with_known`.
        """
        work, found = self.catalog.work, set[str]()
        for features, selection in {engine.feature_digest: engine.select_digest for engine in engines}.items():
            undone = work.undone("featurize", features)
            known = {} if with_known or not undone else work.known_failures((selection, features))
            found.update(slide_id for slide_id in undone if slide_id not in known)
        return sorted(found)

    def ready(self, engine: Engine) -> list[tuple[SlideRow, str]]:
        """Return the slides whose features are recorded, with the features' key, in slide order."""
        ready = self.catalog.work.ready(engine.feature_digest)
        keys = {slide.slide_id: slide.key for slide in ready}
        return [(slide, keys[slide.id]) for slide in self.catalog.slides.some(list(keys))]

    def sound(self, key: str) -> Payload | None:
        """Return what is stored under a key; None if it is missing or damaged and must be computed again."""
        payload = self.catalog.payload(key)
        if payload is None:
            return None
        try:
            if payload.kind == "patches":
                unpack_patches(payload, "")
            elif payload.kind == "code":
                unpack_code(payload, "")
            else:
                self.archive.bag(key, SlideRecord("", ""))
        except DamagedError as error:
            self._note(f"{error.cause}; it will be computed again")
            return None
        return payload

    def keep(self, record: StageRecord, payload: Payload | None = None) -> None:
        """Commit a stage's record, together with its result."""
        with self.catalog.transaction():
            if payload is not None:
                self.catalog.put_payload(payload)
                if found := payload.meta.get("measured"):
                    self.catalog.slides.measure(record.slide_id, found)
            self.catalog.put_stage(record)

    def drop(self, key: str) -> None:
        """Drop a damaged result; it will be computed again."""
        with self.catalog.transaction():
            self.catalog.drop_payload(key)
