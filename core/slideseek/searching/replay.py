"""Log the queries of an archive, and ask one again: are the hits the same, and if not, what has changed?"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slideseek.archive.archive import Archive
from slideseek.archive.catalog import now
from slideseek.digests import canonical_json, digest
from slideseek.indexing.index_store import open_engine
from slideseek.plugins import ComponentKind, load_registry
from slideseek.searching.queries import Query
from slideseek.searching.query_log import LogEntry, QueryLog, try_append
from slideseek.searching.request import Request
from slideseek.searching.searcher import Answer, Searcher

OFF_VARIABLE = "SLIDESEEK_NO_QUERY_LOG"


def open_log(archive: Archive) -> QueryLog:
    """Return the query log of an archive."""
    return QueryLog(archive.catalog.path)


def log_query(
    searcher: Searcher, request: Request, query: Query, answer: Answer, source: str, session: str = ""
) -> tuple[int, str]:
    """Keep what was asked and answered; return its number and "", or 0 and a note when it could not be kept.

    Nothing is kept, and nothing said, where the environment variable SLIDESEEK_NO_QUERY_LOG is set.
    """
    if os.environ.get(OFF_VARIABLE):
        return 0, ""
    engine = searcher.engine
    entry = LogEntry(
        asked=now(),
        who=_who(),
        source=source,
        session=session,
        engine=engine.name,
        signature=digest(engine.resolved.settings),
        resolved={kind: dict(chosen) for kind, chosen in engine.resolved.settings.items()},
        request=request.absolute().pack(),
        state=archive_state(searcher, query, answer),
        answer={
            "query": answer.query.id,
            "hits": [[one.hit.slide_id, one.hit.distance] for one in answer.found],
            "candidates": answer.candidates,
            "milliseconds": round(answer.milliseconds, 3),
            "notes": list(answer.notes),
        },
    )
    return try_append(open_log(searcher.archive), entry)


def archive_state(searcher: Searcher, query: Query, answer: Answer) -> dict[str, Any]:
    """Say what the archive is now, as far as it decides an answer.

    codes and generation: name the set of codes and count its changes. contents: fingerprints of the query and hits.
    """
    archive, engine = searcher.archive, searcher.engine
    codes = searcher.ledger.settings(engine, "encode")
    model = archive.catalog.model(engine.encoder_settings) if engine.resolved.trainable else None
    rows = {one.hit.slide_id: archive.catalog.slides.get(one.hit.slide_id) for one in answer.found}
    return {
        "codes": codes,
        "generation": archive.catalog.changes.generation(codes),
        "model": model.key if model else "",
        "indexed": len(searcher.index.ids),
        "query": sorted(query.fingerprints),
        "contents": {slide_id: row.fingerprint for slide_id, row in rows.items() if row is not None},
    }


@dataclass(frozen=True, slots=True)
class Replay:
    """A logged query asked again. same: hits and distances are exactly those of the log; changes: what has changed."""

    entry: LogEntry
    answer: Answer
    same: bool
    changes: tuple[str, ...]


def replay(archive: Archive, entry: LogEntry) -> Replay:
    """Ask a logged query again with the engine of that name as it is now."""
    request = Request.unpack(entry.request)
    searcher = Searcher(archive, open_engine(archive, archive.config.engine(entry.engine), load_registry()))
    query = request.query(searcher)
    answer = request.answer(searcher, query)
    hits = [[one.hit.slide_id, one.hit.distance] for one in answer.found]
    same = hits == [list(hit) for hit in entry.answer["hits"]]
    changes = changes_since(entry, searcher, query, answer)
    if not same and not changes:
        changes = ["nothing that is recorded; an approximate index may answer differently each time"]
    return Replay(entry, answer, same, tuple(changes))


def changes_since(entry: LogEntry, searcher: Searcher, query: Query, answer: Answer) -> list[str]:
    """Say what has changed in an archive since a query was logged, as far as it may decide the answer."""
    then, current = entry.state, archive_state(searcher, query, answer)
    changes = [f"option {change}" for change in _options(entry.resolved, searcher.engine.resolved.settings)]
    if then["model"] != current["model"]:
        changes.append("model: the encoder was fitted again")
    if then["codes"] == current["codes"] and then["generation"] != current["generation"]:
        changes.append(f"index: the codes are of generation {current['generation']}, then {then['generation']}")
    if then["indexed"] != current["indexed"]:
        changes.append(f"slides: {current['indexed']} in the index, then {then['indexed']}")
    if entry.answer["candidates"] != answer.candidates:
        changes.append(f"candidates: {answer.candidates} pass the filters, then {entry.answer['candidates']}")
    if then["query"] != current["query"]:
        changes.append("query: its pixels are not those of then")
    for slide_id, content in then["contents"].items():
        row = searcher.archive.catalog.slides.get(slide_id)
        if row is None:
            changes.append(f"slide {slide_id!r}, a hit of then, is not in the archive any more")
        elif row.fingerprint != content:
            changes.append(f"slide {slide_id!r}, a hit of then, has other pixels")
    return changes


def _options(then: Mapping[str, Any], current: Mapping[ComponentKind, Mapping[str, Any]]) -> list[str]:
    """Name the options that differ between two resolved engines, as `encoder.bits: 64, then 32`."""
    found = []
    for kind in current:
        before, after = dict(then.get(kind, {})), dict(current[kind])
        for name in sorted(before.keys() | after.keys()):
            # Compared as JSON, which is how the log keeps them: a tuple comes back as a list.
            old, new = (canonical_json(one.get(name)) for one in (before, after))
            if old != new:
                found.append(f"{kind}.{name}: {new}, then {old}")
    return found


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
