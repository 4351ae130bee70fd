"""What is done and what is not: keys, records and payloads of an engine's stages over an archive."""

from __future__ import annotations

from collections.abc import Callable

from slideseek.archive.archive import Archive
from slideseek.archive.catalog import Finished, Payload, Stage, StageRecord
from slideseek.archive.payloads import unpack_code, unpack_patches
from slideseek.archive.slide_table import SlideRow
from slideseek.engine import Engine
from slideseek.errors import DamagedError
from slideseek.interchange import IMPORTED
from slideseek.keys import digest
from slideseek.types import SlideRecord


def select_key(settings: str, slide: SlideRow) -> str:
    """Name a selection: the selector's settings, the slide's content and the resolution stated for it."""
    return digest(["select", settings, slide.content, slide.record.mpp])


def feature_key(settings: str, selection: str) -> str:
    """Name a slide's features: the settings up to the featurizer, and the selection's key."""
    return digest(["featurize", settings, selection])


class Ledger:
    """Decide by content and settings, never by "the file exists", whether a stage is done for a slide."""

    def __init__(self, archive: Archive, note: Callable[[str], None]) -> None:
        self.archive = archive
        self.catalog = archive.catalog
        self._note = note
        self._finished: dict[tuple[Stage, str], dict[str, Finished]] = {}

    def settings(self, engine: Engine, stage: Stage) -> str:
        """Name the settings that decide a stage's result. Codes depend on the fitted model too."""
        if stage == "select":
            return engine.select_settings
        if stage == "featurize":
            return engine.feature_settings
        if not engine.resolved.trainable:
            return engine.encoder_settings
        model = self.catalog.model(engine.encoder_settings)
        return digest([engine.encoder_settings, model.key if model else ""])

    def key(self, engine: Engine, stage: Stage, slide: SlideRow) -> str:
        """Name a stage's result for a slide: its settings and what went in."""
        settings = self.settings(engine, stage)
        if stage == "select":
            # What was imported is named by its own content: the slide's pixels had no part in it.
            imported = engine.config.selector.use == IMPORTED and self.catalog.stage(slide.id, stage, settings)
            return imported.key if imported else select_key(settings, slide)
        if stage == "featurize":
            return feature_key(settings, self.key(engine, "select", slide))
        return digest([stage, settings, self.key(engine, "featurize", slide), slide.record.site])

    def record(self, engine: Engine, stage: Stage, slide: SlideRow) -> StageRecord | None:
        """Return the record of a stage if it is about the slide's present content and settings."""
        found = self.catalog.stage(slide.id, stage, self.settings(engine, stage))
        return found if found and found.key == self.key(engine, stage, slide) else None

    def done(self, engine: Engine, stage: Stage, slide: SlideRow) -> bool:
        """Say whether a stage's result is recorded and there."""
        name = stage, self.settings(engine, stage)
        loaded = self._finished.get(name)
        found = loaded.get(slide.id) if loaded is not None else self.catalog.finished(*name, slide.id).get(slide.id)
        if found is None or found.key != self.key(engine, stage, slide):
            return False
        return found.file is None or (self.archive.root / found.file).is_file()

    def load(self, engine: Engine, stage: Stage) -> None:
        """Read what is done of a stage for all slides at once: many slides are about to be asked about."""
        name = stage, self.settings(engine, stage)
        self._finished[name] = self.catalog.finished(*name)

    def ready(self, engine: Engine) -> list[tuple[SlideRow, str]]:
        """Return the slides whose features are there, with the features' key, in slide order."""
        self.load(engine, "featurize")
        return [
            (slide, self.key(engine, "featurize", slide))
            for slide in self.catalog.slides
            if self.done(engine, "featurize", slide)
        ]

    def sound(self, key: str) -> Payload | None:
        """Return what is stored under a key if it reads back; what is damaged is to be computed again."""
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
            self._note(f"{error.cause}; it is computed again")
            return None
        return payload

    def keep(self, record: StageRecord, payload: Payload | None = None) -> None:
        """Commit a stage's record, together with its result."""
        with self.catalog.transaction():
            if payload is not None:
                self.catalog.put_payload(payload)
            self.catalog.put_stage(record)
        loaded = self._finished.get((record.stage, record.settings))
        if loaded is not None and record.status == "done" and payload is not None:
            loaded[record.slide_id] = Finished(payload.key, payload.file)

    def drop(self, key: str) -> None:
        """Forget a result found to be damaged, so that it is computed again."""
        with self.catalog.transaction():
            self.catalog.drop_payload(key)
        self._finished.clear()
