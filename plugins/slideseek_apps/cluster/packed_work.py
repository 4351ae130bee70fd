"""The work of a build as text, and back: another process, which has no catalogue, makes the same work of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from slideseek.archive.slide_table import SlideRow
from slideseek.building.fit_work import FitWork
from slideseek.building.incoming import Incoming, Result, pack_payload, unpack_payload
from slideseek.building.slide_work import Selection, SlideWork
from slideseek.config import CONFIG_NAME, parse_engine
from slideseek.digests import digest
from slideseek.engine import Engine, pack_resolved, recall_engine, resolved_settings
from slideseek.errors import UsageError
from slideseek.plugin_files import plugin_files
from slideseek.plugins import ComponentKind, load_registry
from slideseek.types import SlideRecord
from slideseek.version import __version__

KINDS: Mapping[str, tuple[ComponentKind, ...]] = {"slide": ("selector", "featurizer"), "fit": ("encoder",)}
"""By what is packed, the components that do it: they have to be the same ones in the other process."""


def pack_slide(work: SlideWork) -> str:
    """Return the work on a slide as JSON."""
    of, engines, selections = work.slide, dict[str, Engine](), list[list[Any]]()
    for each in work.selections:
        engines |= {one.name: one for one in (each.engine, *(engine for engine, _ in each.featurize))}
        keys = [[engine.name, key] for engine, key in each.featurize]
        selections.append([each.engine.name, each.key, pack_payload(each.stored), keys])
    data = {
        "record": {name: getattr(of.record, name) for name in ("id", "path", "site", "mpp", "contours")},
        "file": [of.fingerprint, of.bytes, of.mtime_ns, of.outline, of.parts],
        "selections": selections,
    }
    return _pack("slide", work.root, work.plugins, engines.values(), data)


def restore_slide(packed: str) -> SlideWork:
    """Return the work that `pack_slide` describes; what an earlier attempt has left is not done again."""
    root, engines, data = _restore("slide", packed)
    fingerprint, size, mtime_ns, outline, parts = data["file"]
    record = SlideRecord(**data["record"])
    slide = SlideRow(record, fingerprint, size, mtime_ns, outline, tuple((*part,) for part in parts))
    incoming, done, selections = Incoming(root), list[Result](), list[Selection]()
    for name, key, stored, wanted in data["selections"]:
        payload = unpack_payload(stored)
        if payload is None and (found := incoming.get(key, name)):
            payload = found.payload
            done.append(found)
        results = {engine: incoming.get(features, engine) for engine, features in wanted}
        done += [result for result in results.values() if result]
        left = tuple((engines(engine), features) for engine, features in wanted if not results[engine])
        if left or payload is None:
            selections.append(Selection(engines(name), key, payload, left))
    return SlideWork(slide, root, tuple(selections), incoming=incoming, done=tuple(done))


def pack_fit(work: FitWork) -> str:
    """Return a fit as JSON: its slides by their labels and the files of their features."""
    data = {
        "learnt_from": work.learnt_from,
        "slides": [
            [record.id, record.site, record.label, record.patient, pack_payload(work.features[key])]
            for record, key in work.slides
        ],
    }
    return _pack("fit", work.root, work.plugins, [work.engine], data)


def restore_fit(packed: str) -> FitWork:
    """Return the fit that `pack_fit` describes."""
    root, engines, data = _restore("fit", packed)
    slides, features = [], {}
    for slide_id, site, label, patient, stored in data["slides"]:
        if (payload := unpack_payload(stored)) is not None:
            slides.append((SlideRecord(slide_id, "", patient=patient, site=site, label=label), payload.key))
            features[payload.key] = payload
    return FitWork(engines(next(iter(data["engines"]))), root, tuple(slides), features, data["learnt_from"])


def _pack(what: str, root: Path, plugins: tuple[str, ...], engines: Iterable[Engine], data: dict[str, Any]) -> str:
    packed = {one.name: [one.config.table, pack_resolved(one.resolved)] for one in engines}
    facts = {"slideseek": __version__, "what": what, "root": str(root), "plugins": plugins, "engines": packed}
    return json.dumps({**facts, **data})


def _restore(what: str, packed: str) -> tuple[Path, Callable[[str], Engine], dict[str, Any]]:
    """Return the archive's folder, its engines by name, and what else is packed; raise an error if they differ here."""
    data, here = json.loads(packed), f"a worker ({os.uname().nodename})"
    if data["slideseek"] != __version__:
        raise UsageError(
            f"{here} has slideseek {__version__}, and the build has {data['slideseek']}",
            "install the same version on all workers",
        )
    root = Path(data["root"])
    if not (root / CONFIG_NAME).is_file():
        raise UsageError(f"{here} does not see the archive {root}", "put it on a file system that all workers share")

    def engine(name: str) -> Engine:
        table, resolved = map(json.dumps, data["engines"][name])
        make = _engine if what == "slide" else _engine.__wrapped__  # a fit changes the encoder: a new one each time
        made, differs = make(what, table, resolved, root if data["plugins"] else None, *data["plugins"])
        if differs:
            raise UsageError(
                f"the {differs} of engine {name!r} gives other results on {here}: its version or its files differ",
                "install the same plugins and put the same weights on all workers",
            )
        return made

    return root, engine, data


@lru_cache(maxsize=64)
def _engine(what: str, table: str, resolved: str, root: Path | None, *plugins: str) -> tuple[Engine, str]:
    """Make an engine once per process; return it, and which of its components is another one here than in the build."""
    registry = load_registry(files=plugin_files(root, plugins) if root else ())
    engine = recall_engine(parse_engine(json.loads(table)), registry, json.loads(resolved))
    for kind in KINDS[what]:
        here = resolved_settings(getattr(engine, kind), engine.config.component(kind), registry)
        if digest(here) != digest(engine.resolved.settings[kind]):
            return engine, kind
    return engine, ""
