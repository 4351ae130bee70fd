"""Drop what is to be computed again although nothing has changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, TypeAlias, get_args

from slideseek.archive.archive import Archive, slide_file
from slideseek.archive.file_changes import named
from slideseek.archive.recorded_stages import READ_BY
from slideseek.building.parts import Parts
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.indexing.live_index import changed_readers, open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.slides import reader

READERS = "readers "  # and the digest of a selector: where the catalogue keeps the readers its slides were read with

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
    """Drop what was computed from pixels that are read by other code now; return a note on each change."""
    changes: dict[str, dict[str, None]] = {}
    pixels, settings = [engine for engine in engines if not engine.resolved.imported], set[str]()
    for engine in pixels:
        settings |= {engine.select_digest, engine.feature_digest}
        for change, ids in {**changed_readers(archive, engine), **_taken_over(archive, engine)}.items():
            changes.setdefault(change, {}).update(dict.fromkeys(ids))
            for slide in archive.catalog.slides.some(ids):
                Parts(archive.root, engine.feature_digest, stages.key(engine, "featurize", slide)).remove()
    with archive.catalog.transaction():
        for slide_id in (slide_id for ids in changes.values() for slide_id in ids):
            archive.catalog.drop_read(slide_id, settings)
        for engine in pixels:
            archive.catalog.put_engine(READERS + engine.select_digest, "", dict.fromkeys(_reader_codes().values()))
    return [f"{change}: all that was read of {named(ids)} is computed again" for change, ids in changes.items()]


def _reader_codes() -> dict[str, str]:
    """Return name and digest of every reader but bundled ones of the first revision, by its `read_by`."""
    return {text: " ".join(text.split()[:2]) for *_, text in reader.installed_readers()[0] if text}


def _taken_over(archive: Archive, engine: Engine) -> dict[str, list[str]]:
    """Return the slides that are opened by another reader than when their patches were selected, by a note.

    Only slides are opened that a reader claims which is new, or has other code, since the last build with this
    selector. That is all that is kept of bundled readers: records of slides do not name them.
    """
    catalog, found = archive.catalog, dict[str, list[str]]()
    known = catalog.last_engine(READERS + engine.select_digest) or {}
    fresh = [text for text, code in _reader_codes().items() if code not in known]
    records = catalog.stages("select", engine.select_digest) if fresh else []
    read = {record.slide_id: record.made_by.partition(READ_BY)[2] for record in records}
    for slide in catalog.slides.some(list(read)):
        path = slide_file(archive.root, slide.record.path)
        with suppress(SlideseekError):  # a slide that cannot be opened now keeps its results
            if any(text in fresh for *_, text in reader.claiming(path)):
                with reader.open_slide(path, slide.id, slide.record.mpp) as opened:
                    now, before = (text.partition(" ")[0] for text in (opened.read_by, read[slide.id]))
                if opened.read_by in fresh and now != before:
                    found.setdefault(f"reader {now!r} took over from {before or 'a bundled one'}", []).append(slide.id)
    return found


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
