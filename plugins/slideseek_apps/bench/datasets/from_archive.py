"""An archive of slideseek as a dataset: its slides, and the features one of its engines built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import load_bag
from slideseek.config import CONFIG_NAME
from slideseek.engine import featurizer_names
from slideseek.errors import SlideseekError
from slideseek.indexing.live_index import open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import Registry
from slideseek.types import Bag, SlideRecord
from slideseek_apps.bench.datasets.dataset import LazyBags, Source


@dataclass(frozen=True)
class ArchiveData:
    """Take the features of an archive as they were built. The archive is only read.

    path: the archive's folder. engine: the engine whose selector and featurizer made the features; by default the
    first.
    """

    path: Path
    engine: str | None = None

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Say whether the folder is an archive."""
        return (path / CONFIG_NAME).is_file()

    def load(self, registry: Registry) -> Source:
        """List the slides that have features; a bag is read, and its SHA-256 checked, when it is used."""
        with Archive(self.path) as archive:
            engine = open_engine(archive, archive.config.engine(self.engine), registry)
            ready = StageCache(archive, lambda _: None).ready(engine)
            readers: dict[str, Callable[[], Bag]] = {}
            records: list[SlideRecord] = []
            for slide, key in ready:
                payload = archive.catalog.payload(key)
                if payload is not None:
                    readers[slide.id] = partial(load_bag, archive.root, payload, slide.id, slide.record.site)
                    records.append(slide.record)
            total = len(archive.catalog.slides)
            identities = {slide.id: slide.fingerprint for slide, _ in ready}
        if not records:
            raise SlideseekError(
                f"engine {engine.name!r} of {self.path} has no slide with features", "run 'slideseek build' first"
            )
        behind = total - len(records)
        notes = (f"{behind} slide(s) of {self.path} have no features yet: run 'slideseek build'",) if behind else ()
        return Source(
            self.path.resolve().name,
            tuple(records),
            LazyBags(readers),
            identities,
            (),
            notes,
            featurizer_names(engine.config),
        )
