"""Drop what is to be computed again although nothing has changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, TypeAlias, get_args

from slideseek.archive.archive import Archive
from slideseek.archive.file_changes import named
from slideseek.building.parts import Parts
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.indexing.live_index import changed_readers, open_engine
from slideseek.indexing.stage_cache import StageCache

RecomputeStage: TypeAlias = Literal["select", "featurize", "fit", "encode", "index"]


def drop_for_recompute(
    archive: Archive, engines: Sequence[Engine], stages: StageCache, asked: Sequence[RecomputeStage]
) -> None:
    """Drop what was asked to be computed again, and all that depends on it, in every engine that shares it."""
    order: tuple[RecomputeStage, ...] = get_args(RecomputeStage)
    if not asked:
        return
    first = order[min(map(order.index, asked))]
    pixels, catalog = {"select", "featurize"}, archive.catalog
    with catalog.transaction():
        for engine in _sharing(archive, engines, first) if first in pixels else engines:
            codes = stages.settings_digest(engine, "encode")
            catalog.drop_index(engine.name)
            if first != "index":
                catalog.drop_results("encode", codes)
            if first in pixels | {"fit"}:
                catalog.drop_model(engine.encoder_digest)
            if first in pixels:
                catalog.drop_results("featurize", engine.feature_digest)
            if first == "select":
                catalog.drop_results("select", engine.select_digest)


def drop_of_changed_readers(archive: Archive, engines: Sequence[Engine], stages: StageCache) -> list[str]:
    """Drop what was computed from pixels that a reader now reads with other code; return a note on each change."""
    changes: dict[str, dict[str, None]] = {}
    for engine in engines:
        for change, ids in changed_readers(archive, engine).items():
            changes.setdefault(change, {}).update(dict.fromkeys(ids))
            for slide in archive.catalog.slides.some(ids):
                Parts(archive.root, engine.feature_digest, stages.key(engine, "featurize", slide)).remove()
    with archive.catalog.transaction():
        for slide_id in (slide_id for ids in changes.values() for slide_id in ids):
            archive.catalog.drop_read(slide_id)
    return [f"{change}: all it read of {named(ids)} is computed again" for change, ids in changes.items()]


def _sharing(archive: Archive, engines: Sequence[Engine], first: RecomputeStage) -> list[Engine]:
    """Return the engines of the archive that share patches, or features, with one that is built."""
    found: list[Engine] = list(engines)
    for config in archive.config.engines:
        with suppress(SlideseekError):  # an engine that cannot be used has nothing to keep up to date
            other = open_engine(archive, config, engines[0].registry)
            same = [one.select_digest if first == "select" else one.feature_digest for one in engines]
            if (other.select_digest if first == "select" else other.feature_digest) in same:
                found.append(other)
    return list({engine.name: engine for engine in found}.values())
