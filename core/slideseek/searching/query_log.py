"""The query log: user, time, engine and hits of each query. A search never fails because of it."""

from __future__ import annotations

import getpass
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from slideseek.archive.archive import Archive
from slideseek.archive.catalog import now
from slideseek.archive.schema import AUDIT, QUERY_LOG
from slideseek.digests import digest
from slideseek.errors import UsageError, message
from slideseek.searching.request import Result
from slideseek.searching.searcher import Searcher

OFF_VARIABLE = "SLIDESEEK_NO_QUERY_LOG"
WAIT_SECONDS = 0.5
"""How long an entry waits for another writer, such as a build, before it is dropped."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One query as plain data.

    number: counted from 1, never reused; 0 before it is stored. asked: time of the query, ISO 8601 in UTC. source: the
    command that ran it. session: the session it belongs to, "" for none. signature: identifies `resolved`, the
    engine's settings with their defaults. request: the query. state: the state of the archive. answer: hits and votes.
    """

    asked: str
    who: str
    source: str
    session: str
    engine: str
    signature: str
    resolved: Mapping[str, Any]
    request: Mapping[str, Any]
    state: Mapping[str, Any]
    answer: Mapping[str, Any]
    number: int = 0


class AuditEntry(NamedTuple):
    """Something that was searched or given out. what: JSON. digest: of this entry and the digest of the one before."""

    number: int
    happened: str
    who: str
    what: str
    digest: str

    def link(self, previous: str) -> str:
        """Return the digest that the entry must have after one with the digest `previous`."""
        return digest([previous, self.number, self.happened, self.who, self.what])


class QueryLog:
    """Read and write the query log of one catalogue, over separate connections.

    Entries are few and small, so each opens its own connection: the log then shares no transaction, thread or timeout
    with other work. Unlike everything else in the catalogue, an entry may be lost in a power cut.
    """

    def __init__(self, catalog: Path) -> None:
        self._path = catalog

    def append(self, entry: LogEntry) -> int:
        """Store an entry and return its number; raises `OSError` or `sqlite3.Error` on failure."""
        if not os.access(self._path.parent, os.W_OK):
            raise PermissionError(f"{self._path.parent} is not writable")
        with self._open("") as db:
            if not _has_table(db):
                db.executescript(f"BEGIN IMMEDIATE;{QUERY_LOG}COMMIT;")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR IGNORE INTO query_engines VALUES (?,?)", (entry.signature, _text(entry.resolved)))
            cursor = db.execute(
                "INSERT INTO queries (asked, who, source, session, engine, signature, request, state, answer)"
                " VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    *(entry.asked, entry.who, entry.source, entry.session, entry.engine, entry.signature),
                    *(_text(entry.request), _text(entry.state), _text(entry.answer)),
                ),
            )
            number = int(cursor.lastrowid or 0)
            row = db.execute("SELECT * FROM queries WHERE id = ?", (number,)).fetchone()
            _chain(db, entry.asked, entry.who, {"query": number, "row": digest(list(row))})
            db.execute("COMMIT")
            return number

    def note(self, what: Mapping[str, Any], who: str = "") -> str:
        """Note in the audit log what was given out, such as an export; return why it could not be noted, or ""."""
        if os.environ.get(OFF_VARIABLE):
            return ""
        try:
            with self._open("") as db:
                db.execute("BEGIN IMMEDIATE")
                _chain(db, now(), who or _who(), what)
                db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            return f"this was not noted in the audit log ({message(error)})"
        return ""

    def audited(self) -> tuple[list[AuditEntry], dict[int, str]]:
        """Return the audit log, and by its number the digest of each query as it is stored now."""
        with self._open("?mode=ro") as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            rows = db.execute("SELECT * FROM audit ORDER BY number").fetchall() if "audit" in tables else []
            queries = db.execute("SELECT * FROM queries ORDER BY id").fetchall() if "queries" in tables else []
        return [AuditEntry(*row) for row in rows], {row[0]: digest(list(row)) for row in queries}

    def last(self, count: int | None = None, session: str = "") -> list[LogEntry]:
        """Return the `count` newest entries (None for all), oldest first, of one session or of any."""
        where, limit = (" WHERE session = ?1" if session else " WHERE ?1 = ''"), -1 if count is None else count
        return self._select(f"{where} ORDER BY id DESC LIMIT {int(limit)}", (session,))[::-1]

    def get(self, number: int) -> LogEntry:
        """Return the entry with a number; raise `UsageError` if there is none."""
        found = self._select(" WHERE id = ?", (number,))
        if not found:
            raise UsageError(f"no query number {number} in the log", "'slideseek history' lists them")
        return found[0]

    def _select(self, clause: str, values: Sequence[Any]) -> list[LogEntry]:
        readonly = not os.access(self._path.parent, os.W_OK)  # the write-ahead log cannot be opened there
        with self._open("?immutable=1" if readonly else "") as db:
            if not _has_table(db):
                return []
            db.row_factory = sqlite3.Row
            rows = db.execute(f"SELECT * FROM queries JOIN query_engines USING (signature){clause}", values)
            return [_entry(row) for row in rows]

    @contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        where = self._path.absolute().as_uri() + mode
        with closing(sqlite3.connect(where, uri=True, isolation_level=None, timeout=WAIT_SECONDS)) as db:
            yield db


def open_log(archive: Archive) -> QueryLog:
    """Return the query log of an archive."""
    return QueryLog(archive.catalog.path)


def log_result(searcher: Searcher, result: Result, source: str, session: str = "", who: str = "") -> tuple[int, str]:
    """Log a request and its answer; return its number and "", or 0 and a note why it was not logged.

    who: the user who asked, as a server knows; by default the user of this process.

    Nothing is logged, and no note is given, if the environment variable SLIDESEEK_NO_QUERY_LOG is set.
    """
    if os.environ.get(OFF_VARIABLE):
        return 0, ""
    engine, answer = searcher.engine, result.answer
    entry = LogEntry(
        asked=now(),
        who=who or _who(),
        source=source,
        session=session,
        engine=engine.name,
        signature=digest(engine.resolved.settings),
        resolved={kind: dict(chosen) for kind, chosen in engine.resolved.settings.items()},
        request=result.request.absolute().pack(),
        state=archive_state(searcher, result),
        answer={
            "query": answer.query.id,
            "hits": [[one.hit.slide_id, one.hit.distance] for one in answer.found],
            "candidates": answer.candidates,
            "milliseconds": round(answer.milliseconds, 3),
            "notes": list(answer.notes),
        },
    )
    try:
        return open_log(searcher.archive).append(entry), ""
    except (OSError, sqlite3.Error) as error:
        return 0, f"this query was not logged ({message(error)})"


def archive_state(searcher: Searcher, result: Result) -> dict[str, Any]:
    """Return the state of the archive, as far as it affects an answer.

    codes and generation: the set of codes and its change count. contents: fingerprints of the query and hits.
    """
    archive, engine = searcher.archive, searcher.engine
    codes = searcher.stages.settings_digest(engine, "encode")
    model = archive.catalog.model(engine.encoder_digest) if engine.resolved.trainable else None
    rows = {one.hit.slide_id: archive.catalog.slides.get(one.hit.slide_id) for one in result}
    return {
        "codes": codes,
        "generation": archive.catalog.changes.generation(codes),
        "model": model.key if model else "",
        "indexed": len(searcher.index.ids),
        "query": sorted(result.query.fingerprints),
        "contents": {slide_id: row.fingerprint for slide_id, row in rows.items() if row is not None},
    }


def _chain(db: sqlite3.Connection, happened: str, who: str, what: Mapping[str, Any]) -> None:
    """Append to the audit log, within a transaction."""
    db.execute(AUDIT)
    last = db.execute("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1").fetchone() or (0, "")
    entry = AuditEntry(last[0] + 1, happened, who, _text(what), "")
    db.execute("INSERT INTO audit VALUES (?,?,?,?,?)", (*entry[:4], entry.link(last[1])))


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user id without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def _has_table(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'queries'").fetchone() is not None


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, sort_keys=True)


def _entry(row: sqlite3.Row) -> LogEntry:
    values = dict(row)
    number = values.pop("id")
    plain = {name: json.loads(values.pop(name)) for name in ("resolved", "request", "state", "answer")}
    return LogEntry(number=number, **values, **plain)
