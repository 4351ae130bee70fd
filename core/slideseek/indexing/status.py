"""The state of every slide and engine of an archive, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slideseek.archive.archive import Archive
from slideseek.archive.records import Stage, StageRecord
from slideseek.archive.slide_table import SlideRow
from slideseek.config import EngineConfig
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.indexing.live_index import changed_makers, index_is_fresh, open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import Registry

STAGES: tuple[Stage, ...] = ("select", "featurize", "encode")


def archive_status(archive: Archive) -> dict[str, Any]:
    """Return the archive's slides with their state under each engine, the engines, and the last run.

    An engine that cannot be used (a missing plugin, a wrong option) is reported with its `error`; the others are
    reported as usual.
    """
    registry = archive.registry()
    engines = {config.name: _open(archive, config, registry) for config in archive.config.engines}
    stages = StageCache(archive, lambda _: None)
    files = archive.catalog.slides.not_as_added(archive.root)
    known = archive.catalog.work.known_failures(_settings(engines.values(), stages))
    slides = [
        {
            **_slide(slide, engines, stages),
            "file": files.get(slide.id, "same"),
            "known": known[slide.id].reason if slide.id in known else None,
        }
        for slide in archive.catalog.slides
    ]
    copies = [[row.id for row in rows] for rows in archive.catalog.slides.copies()]
    runs = archive.catalog.runs()
    last = {key: runs[-1][key] for key in ("command", "started", "finished", "outcome", "counts")} if runs else None
    return {
        "archive": str(archive.root),
        "slides": slides,
        "copies": copies,
        "engines": [_engine(name, engine, archive, stages) for name, engine in engines.items()],
        "last_run": last,
    }


def _settings(engines: Iterable[Engine | SlideseekError], stages: StageCache) -> set[str]:
    usable = [engine for engine in engines if isinstance(engine, Engine)]
    return {stages.settings_digest(engine, stage) for engine in usable for stage in STAGES}


def _open(archive: Archive, config: EngineConfig, registry: Registry) -> Engine | SlideseekError:
    try:
        return open_engine(archive, config, registry)
    except SlideseekError as error:
        return error


def _slide(slide: SlideRow, engines: Mapping[str, Engine | SlideseekError], stages: StageCache) -> dict[str, Any]:
    states: dict[str, Any] = {}
    failure: dict[str, str] | None = None
    for name, engine in engines.items():
        if isinstance(engine, SlideseekError):
            states[name] = {"state": "unknown", "stages": {}}
            continue
        records = {stage: stages.record(engine, stage, slide) for stage in STAGES}
        failed = next((r for r in records.values() if r and r.status != "done"), None)
        done = [stage for stage, r in records.items() if r and r.status == "done"]
        state = failed.status if failed else "done" if len(done) == len(STAGES) else f"to {_next(done)}"
        states[name] = {"state": state, "stages": {s: _record(r) for s, r in records.items() if r}}
        if failed and failure is None:
            failure = {"stage": failed.stage, "cause": failed.cause, "fix": failed.fix}
    record = slide.record
    return {
        "id": slide.id,
        "path": record.path,
        "patient": record.patient,
        "site": record.site,
        "label": record.label,
        "center": record.center,
        "mpp": record.mpp,
        "fields": dict(record.fields),
        "measured": dict(record.measured),
        "fingerprint": slide.fingerprint,
        "engines": states,
        "failure": failure,
    }


def _next(done: list[Stage]) -> Stage:
    return next(stage for stage in STAGES if stage not in done)


def _record(record: StageRecord) -> dict[str, Any]:
    return {
        name: getattr(record, name)
        for name in (
            *("status", "cause", "fix", "notes", "attempts", "seconds", "items", "bytes"),
            *("unreadable", "filled", "updated"),
        )
    }


def _engine(name: str, engine: Engine | SlideseekError, archive: Archive, stages: StageCache) -> dict[str, Any]:
    if isinstance(engine, SlideseekError):
        return {"name": name, "error": {"cause": engine.cause, "fix": engine.fix}}
    codes = stages.settings_digest(engine, "encode")
    coded = [r for r in archive.catalog.stages("encode", codes) if r.status == "done"]
    row = archive.catalog.index(name)
    return {
        "name": name,
        "error": None,
        "settings": engine.resolved.settings,
        "code": str(engine.spec),
        "coded": len(coded),
        "bytes_per_slide": sum(r.bytes for r in coded) / len(coded) if coded else 0.0,
        "indexed": row.slides if row else 0,
        "index_fresh": index_is_fresh(archive, engine, stages),
        "makers": dict(engine.resolved.makers),
        "changed": list(changed_makers(archive, engine).values()),
    }
