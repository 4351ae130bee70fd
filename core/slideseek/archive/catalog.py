"""The catalogue: an archive's store of record. Everything else is derived from what is committed here."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from slideseek.archive.files import replacing
from slideseek.archive.recorded_stages import READ_BY, RecordedStages
from slideseek.archive.records import Finished, IndexRow, ModelRow, Payload, Stage, StageRecord
from slideseek.archive.schema import (
    DAMAGED_ROWS,
    DISCARDED,
    FROM_1,
    FROM_2,
    FROM_3,
    FROM_4,
    FROM_5,
    KNOWN_FAILURES,
    SEALED,
    SEALS,
    TABLES,
    VERSION,
    WATCH,
)
from slideseek.archive.slide_table import SlideTable
from slideseek.digests import Seal, is_whole, row_seal
from slideseek.errors import DamagedError, SlideseekError, message

RECORDS = "slides"
"""Name under which changes of the table `slides` are counted; settings are digests, so none has this name."""

CHUNK = 500
"""Ids per statement; SQLite limits the number of parameters."""


def now() -> str:
    """Return the current time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Catalog:
    """Read and write one catalogue. Writes happen inside `transaction()`; a commit is on disk when it returns."""

    def __init__(self, path: Path, create: bool = False, still: bool = False) -> None:
        self.path = path
        self._frozen = _stamp(path) if _is_frozen(path) else None
        self._failed: NoSpaceError | None = None
        try:
            self._db = connect(path, create, still)
        except NoSpaceError as error:  # no room for SQLite's shared memory; without a log the file can be read
            if create or (_log(path).exists() and _log(path).stat().st_size):
                raise
            self._db, self._failed = connect(path, full=True), error
        self.slides = SlideTable(self._db)
        self.changes = CodeChanges(self._db)

    @cached_property
    def work(self) -> RecordedStages:
        """What is done and what remains to be done, over all slides."""
        return RecordedStages(self._db)

    def damaged(self) -> dict[str, list[str]]:
        """Return the keys of rows that are not as they were written, by table; tables without any are left out."""
        found = {table: [str(row[0]) for row in self._db.execute(query)] for table, query in DAMAGED_ROWS.items()}
        return {table: keys for table, keys in found.items() if keys}

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes of the block together, or none of them."""
        if self._failed:
            raise self._failed
        try:  # an interrupt may come between any two of these lines
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise unusable(self.path, error) from error
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one snapshot of the catalogue throughout the block, regardless of other commits."""
        if self._db.in_transaction:
            yield
            return
        if self._frozen is not None and self._frozen != _stamp(self.path):
            raise SlideseekError(
                f"{self.path} has changed, and it was opened as a file that does not: it cannot be written to here",
                "run this again",
            )
        try:
            self._db.execute("BEGIN")
            yield
        finally:
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    # Stages

    def stage(self, slide_id: str, stage: Stage, settings: str) -> StageRecord | None:
        """Return the record of one slide at one stage, if there is one."""
        row = self._db.execute(
            "SELECT * FROM stages WHERE slide_id = ? AND stage = ? AND settings = ?", (slide_id, stage, settings)
        ).fetchone()
        return _stage(row) if row and is_whole(row, SEALED["stages"]) else None

    def stages(self, stage: Stage | None = None, settings: str | None = None) -> list[StageRecord]:
        """Return stage records in slide order: all, or those of one stage and settings."""
        query = "SELECT * FROM stages WHERE (?1 IS NULL OR stage = ?1) AND (?2 IS NULL OR settings = ?2)"
        rows = self._db.execute(f"{query} ORDER BY slide_id, stage", (stage, settings))
        return [_stage(row) for row in rows if is_whole(row, SEALED["stages"])]

    def unreadable(self, settings: Iterable[str]) -> list[StageRecord]:
        """Return the records of features of slides with undecodable regions, in slide order."""
        query = "SELECT * FROM stages WHERE stage = 'featurize' AND settings = ? AND unreadable > 0"
        rows = (row for name in settings for row in self._db.execute(query, (name,)))
        found = [_stage(row) for row in rows if is_whole(row, SEALED["stages"])]
        return sorted(found, key=lambda record: record.slide_id)

    def finished(self, slide_id: str, stage: Stage, settings: str) -> Finished | None:
        """Return where a slide's result of a stage is stored, if it is done."""
        row = self._db.execute(
            "SELECT payloads.key, payloads.file FROM stages JOIN payloads ON payloads.key = stages.key"
            " WHERE slide_id = ? AND stage = ? AND settings = ? AND status = 'done'",
            (slide_id, stage, settings),
        ).fetchone()
        return Finished(row[0], row[1] and inside(row[1])) if row else None

    def put_stage(self, record: StageRecord) -> None:
        """Insert or replace a record; the count of attempts continues from the previous one."""
        before = self.stage(record.slide_id, record.stage, record.settings)
        attempts = before.attempts + 1 if before else 1
        self._db.execute(
            "INSERT INTO stages VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0)"
            " ON CONFLICT DO UPDATE SET key = excluded.key, status = excluded.status, cause = excluded.cause,"
            " fix = excluded.fix, notes = excluded.notes, attempts = excluded.attempts, seconds = excluded.seconds,"
            " items = excluded.items, bytes = excluded.bytes, unreadable = excluded.unreadable,"
            " filled = excluded.filled, updated = excluded.updated, made_by = excluded.made_by",
            (
                *(record.slide_id, record.stage, record.settings, record.key, record.status, record.cause),
                *(record.fix, json.dumps(record.notes), attempts, record.seconds, record.items, record.bytes),
                *(record.unreadable, record.filled, now(), record.made_by),
            ),
        )

    def forget_stages(self, slide_id: str, stages: Iterable[Stage]) -> None:
        """Drop the records of stages whose input has changed; the payloads stay under their keys."""
        self._db.executemany(
            "DELETE FROM stages WHERE slide_id = ? AND stage = ?", [(slide_id, stage) for stage in stages]
        )

    def acknowledge(self, slide_id: str, reason: str) -> list[StageRecord]:
        """Accept the failures a slide has now, and return them: not tried again until content or settings change."""
        failed = "SELECT * FROM stages WHERE slide_id = ? AND status <> 'done' ORDER BY stage"
        rows = self._db.execute(failed, (slide_id,)).fetchall()
        accepted = [(slide_id, row["key"], reason, now()) for row in rows]
        self._db.executemany("INSERT OR REPLACE INTO known_failures VALUES (?,?,?,?)", accepted)
        return [_stage(row) for row in rows]

    def disown(self, slide_id: str) -> int:
        """Forget that failures of a slide were accepted, so that they are tried and reported again; return how many."""
        return self._db.execute("DELETE FROM known_failures WHERE slide_id = ?", (slide_id,)).rowcount

    # Payloads

    def payload(self, key: str) -> Payload | None:
        """Return what is stored under a key, if anything."""
        row = self._db.execute("SELECT * FROM payloads WHERE key = ?", (key,)).fetchone()
        return _payload(row) if row else None

    def has_payload(self, key: str) -> bool:
        """Return whether something is stored under a key, without reading it."""
        return self._db.execute("SELECT 1 FROM payloads WHERE key = ?", (key,)).fetchone() is not None

    def put_payload(self, payload: Payload) -> None:
        """Store a result; if another key pointed to its file, the file was overwritten and now belongs to this one."""
        if payload.file is not None:
            self._db.execute("DELETE FROM payloads WHERE file = ? AND key <> ?", (payload.file, payload.key))
        self._db.execute(
            "INSERT OR REPLACE INTO payloads VALUES (?,?,?,?,?,?,0)",
            (payload.key, payload.kind, json.dumps(payload.meta), payload.data, payload.file, payload.sha256),
        )

    def sweep_payloads(self) -> None:
        """Drop payloads that no stage refers to; their files are listed as discarded in the same commit."""
        orphan = "FROM payloads WHERE NOT EXISTS (SELECT 1 FROM stages WHERE stages.key = payloads.key)"
        self._db.execute(DISCARDED)
        self._db.execute(f"INSERT OR IGNORE INTO discarded SELECT file {orphan} AND file IS NOT NULL")
        self._db.execute(f"DELETE {orphan}")

    def discarded(self) -> list[str]:
        """Return the files whose records were dropped, and that nothing points to."""
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'discarded'").fetchone():
            return []
        unused = "SELECT file FROM discarded WHERE NOT EXISTS (SELECT 1 FROM payloads WHERE file = discarded.file)"
        return [inside(file) for (file,) in self._db.execute(unused)]

    def forget_discarded(self) -> None:
        """Empty the list of discarded files: they are deleted."""
        self._db.execute("DELETE FROM discarded")

    def drop_payload(self, key: str) -> None:
        """Drop a damaged payload; it will be computed again."""
        self._db.execute("DELETE FROM payloads WHERE key = ?", (key,))

    def drop_results(self, stage: Stage, settings: str) -> None:
        """Drop all results of a stage with some settings, and their records; they will be computed again."""
        where = "FROM stages WHERE stage = ? AND settings = ?"
        self._db.execute(f"DELETE FROM payloads WHERE key IN (SELECT key {where})", (stage, settings))
        self._db.execute(f"DELETE {where}", (stage, settings))

    def drop_read(self, slide_id: str, settings: Collection[str]) -> None:
        """Drop codes, and what was read of a slide by a plugin or for some settings, also for copies of the slide."""
        keys = f"""SELECT key FROM stages WHERE slide_id = ? AND (stage = 'encode' OR instr(made_by, '{READ_BY}')
            OR settings IN ({",".join("?" * len(settings))}))"""
        found = [(row[0],) for row in self._db.execute(keys, (slide_id, *settings)).fetchall()]
        for table in ("payloads", "stages"):
            self._db.executemany(f"DELETE FROM {table} WHERE key = ?", found)

    def drop_model(self, settings: str) -> None:
        """Forget the model for an encoder's settings; it will be fitted again."""
        self._db.execute("DELETE FROM models WHERE settings = ?", (settings,))

    def codes(self, settings: str, slide_ids: Sequence[str] | None = None) -> Iterator[tuple[str, Payload]]:
        """Yield (slide id, payload) for the codes made with `settings`: of all slides in order, or of some."""
        query = (
            "SELECT stages.slide_id, payloads.* FROM stages JOIN payloads ON payloads.key = stages.key"
            " WHERE stages.stage = 'encode' AND stages.settings = ? AND stages.status = 'done'"
        )
        if slide_ids is None:
            for row in self._db.execute(f"{query} ORDER BY stages.slide_id", (settings,)):
                yield row["slide_id"], _payload(row)
            return
        for first in range(0, len(slide_ids), CHUNK):
            part = slide_ids[first : first + CHUNK]
            some = f"{query} AND stages.slide_id IN ({','.join('?' * len(part))})"
            for row in self._db.execute(some, (settings, *part)):
                yield row["slide_id"], _payload(row)

    # Engines, models and indexes

    def engine(self, name: str, signature: str) -> dict[str, Any] | None:
        """Return an engine's resolved configuration from its last build, if its signature is still the same."""
        row = self._db.execute("SELECT * FROM engines WHERE name = ?", (name,)).fetchone()
        same = row and row["signature"] == signature and is_whole(row, SEALED["engines"])
        return dict(json.loads(row["resolved"])) if same else None

    def last_engine(self, name: str) -> dict[str, Any] | None:
        """Return an engine's resolved configuration from its last build, whatever has changed since."""
        row = self._db.execute("SELECT * FROM engines WHERE name = ?", (name,)).fetchone()
        return dict(json.loads(row["resolved"])) if row and is_whole(row, SEALED["engines"]) else None

    def put_engine(self, name: str, signature: str, resolved: Mapping[str, Any]) -> None:
        """Store an engine's resolved configuration."""
        self._db.execute("INSERT OR REPLACE INTO engines VALUES (?,?,?,0)", (name, signature, json.dumps(resolved)))

    def model(self, settings: str) -> ModelRow | None:
        """Return the current model for an encoder's settings, if it was fitted."""
        row = self._db.execute("SELECT * FROM models WHERE settings = ?", (settings,)).fetchone()
        if row is None or not is_whole(row, SEALED["models"]):
            return None
        files = {inside(name): sha256 for name, sha256 in json.loads(row["files"]).items()}
        return ModelRow(**{**_plain(row), "folder": inside(row["folder"]), "files": files})

    def put_model(self, model: ModelRow) -> None:
        """Make `model` the current one for its settings."""
        self._db.execute(
            "INSERT OR REPLACE INTO models VALUES (?,?,?,?,?,?,?,?,0)",
            (
                *(model.settings, model.key, model.folder, model.learnt_from, json.dumps(dict(model.files))),
                *(model.slides, model.seconds, now()),
            ),
        )

    def index(self, engine: str) -> IndexRow | None:
        """Return the saved index of an engine, if there is one."""
        row = self._db.execute("SELECT * FROM indexes WHERE engine = ?", (engine,)).fetchone()
        if row is None or not is_whole(row, SEALED["indexes"]):
            return None
        if row["generation"] > self.changes.generation(row["codes"]):  # a damaged counter would hide later changes
            return None
        seals = {inside(name): Seal.of(stored) for name, stored in json.loads(row["files"]).items()}
        return IndexRow(**{**_plain(row), "folder": inside(row["folder"]), "files": seals})

    def put_index(self, index: IndexRow) -> None:
        """Make `index` the one an engine searches; code changes that every index already contains are dropped."""
        seals = {name: asdict(seal) for name, seal in index.files.items()}
        self._db.execute(
            "INSERT OR REPLACE INTO indexes VALUES (?,?,?,?,?,?,?,?,?,0)",
            (
                *(index.engine, index.settings, index.codes, index.generation),
                *(index.folder, json.dumps(seals), index.slides, index.bytes, now()),
            ),
        )
        self.changes.forget_settled()

    def drop_index(self, engine: str) -> None:
        """Forget the saved index of an engine; it will be built again from the codes."""
        self._db.execute("DELETE FROM indexes WHERE engine = ?", (engine,))

    # Runs

    def start_run(self, command: str, config: str, versions: Mapping[str, str]) -> int:
        """Record that a run began; return its number."""
        with self.transaction():
            cursor = self._db.execute(
                "INSERT INTO runs (command, started, config, versions) VALUES (?,?,?,?)",
                (command, now(), config, json.dumps(dict(versions))),
            )
        return int(cursor.lastrowid or 0)

    def finish_run(self, run: int, outcome: str, counts: Mapping[str, Any]) -> None:
        """Record how a run ended."""
        with self.transaction():
            self._db.execute(
                "UPDATE runs SET finished = ?, outcome = ?, counts = ? WHERE id = ?",
                (now(), outcome, json.dumps(dict(counts)), run),
            )

    def runs(self) -> list[dict[str, Any]]:
        """Return the runs, oldest first, as plain data."""
        return [
            {**dict(row), "counts": json.loads(row["counts"] or "{}"), "versions": json.loads(row["versions"])}
            for row in self._db.execute("SELECT * FROM runs ORDER BY id")
        ]


def inside(path: str) -> str:
    """Return a path of the catalogue as it is; `DamagedError` if it leads out of the archive's folder.

    An archive from elsewhere may hold anything, and files that it names are removed.
    """
    parts = PurePath(path).parts
    if not parts or PurePath(path).is_absolute() or ".." in parts or "\0" in path:
        raise DamagedError(
            f"the catalogue names {path!r}, which is outside the archive", "restore the catalogue from a backup"
        )
    return path


def _plain(row: sqlite3.Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys() if name != "seal"}  # noqa: SIM118 - a Row iterates over values


def _stage(row: sqlite3.Row) -> StageRecord:
    return StageRecord(**{**_plain(row), "notes": tuple(json.loads(row["notes"]))})


def _payload(row: sqlite3.Row) -> Payload:
    """Return a stored result; of a damaged row nothing but its key, so that its check fails wherever it is read."""
    if not is_whole(row, SEALED["payloads"]):
        return Payload(row["key"], row["kind"], {}, sha256="")
    file = row["file"] and inside(row["file"])
    return Payload(row["key"], row["kind"], json.loads(row["meta"]), sha256=row["sha256"], data=row["data"], file=file)


class CodeChanges:
    """Read and shorten the list of changes. Changes are listed only for codes that a saved index contains."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def generation(self, settings: str) -> int:
        """Return a number that grows whenever a code made with `settings` changes."""
        row = self._db.execute("SELECT value FROM generations WHERE settings = ?", (settings,)).fetchone()
        return int(row[0]) if row else 0

    def of_records(self) -> int:
        """Return a number that grows whenever a slide is added or removed or its record changes."""
        return self.generation(RECORDS)

    def identity(self) -> int:
        """Return the random number of this archive, drawn when it is first asked for."""
        drawn = secrets.randbits(62)
        self._db.execute("INSERT OR IGNORE INTO generations VALUES ('archive', ?)", (drawn,))
        return self.generation("archive")

    def since(self, settings: str, generation: int) -> list[str]:
        """Return the ids of slides whose codes were added, changed or removed after a generation, sorted."""
        rows = self._db.execute(
            "SELECT slide_id FROM code_changes WHERE settings = ? AND generation > ? ORDER BY slide_id",
            (settings, generation),
        )
        return [row[0] for row in rows]

    def forget_settled(self) -> None:
        """Drop the changes that every saved index of their codes already contains."""
        self._db.execute(
            "DELETE FROM code_changes WHERE generation <= ifnull((SELECT min(generation) FROM indexes"
            " WHERE indexes.codes = code_changes.settings), code_changes.generation)"
        )


_RIGHTS = "check the write permissions there, or choose another folder"
_RESTORE = "run 'slideseek repair', or restore it from a backup"
_FIXES = (
    ("locked", "wait until the other program is done with the archive, then run the same command again"),
    ("readonly", _RIGHTS),
    ("unable to open", f"{_RIGHTS}; free some space if the disk is full"),
    ("full", "free some space, then run the same command again: nothing is lost"),
    ("disk I/O", "free some space, or check the disk, then run the same command again"),
    ("malformed", _RESTORE),
    ("not a database", _RESTORE),
)


class NoSpaceError(SlideseekError):
    """A catalogue that cannot be written because its disk is full or fails."""


def unusable(path: Path | str, error: Exception) -> SlideseekError:
    """Return SQLite's error with what to do about it: only a damaged catalogue has to be restored."""
    text = message(error)
    fix = next((fix for part, fix in _FIXES if part in text), _RESTORE)
    kind = NoSpaceError if any(part in text for part in ("unable", "full", "disk I/O")) else SlideseekError
    return kind(f"the catalogue {path} cannot be used ({text})", fix)


def connect(path: Path, create: bool = False, still: bool = False, full: bool = False) -> sqlite3.Connection:
    """Open the catalogue as the store of record: write-ahead log, synced at every commit, foreign keys on.

    still: only read it, and as a file that does not change if nobody on this machine has its log open. full: only read
    it, without its log.
    """
    if not create and not path.is_file():
        raise SlideseekError(f"{path} is missing", "run 'slideseek init' to make an archive")
    writable = _is_writable(path) and not still and not full
    how = "" if writable else "?mode=ro" if _log(path).exists() and not full else "?immutable=1"
    where = path.absolute().as_uri() + how
    try:
        connection = sqlite3.connect(where, uri=True, isolation_level=None, timeout=30, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise unusable(path, error) from error
    with_seals(connection)
    try:
        if writable:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        connection.close()
        raise unusable(path, error) from error
    if version > VERSION:
        connection.close()
        raise SlideseekError(
            f"{path} was written by a newer slideseek (catalogue version {version}, this one knows {VERSION})",
            "update slideseek",
        )
    if version == 0 and not create:
        connection.close()
        raise SlideseekError(f"{path} is not a slideseek catalogue", _RESTORE)
    if version == 0:
        _script(connection, path, f"{TABLES}{KNOWN_FAILURES}{WATCH}{SEALS}")
    if 0 < version < VERSION and not writable:
        connection.close()
        raise SlideseekError(
            f"{path} was written by an older slideseek and cannot be upgraded: it is read-only",
            "open it once with write permission, for example with 'slideseek status'",
        )
    if 0 < version < VERSION:
        steps = "".join((FROM_1, FROM_2, FROM_3, FROM_4)[version - 1 :]) or FROM_5
        with (
            replacing(path.with_name(f"{path.stem}-{version}{path.suffix}")) as copy,
            closing(sqlite3.connect(copy)) as old,
        ):
            connection.backup(old)  # kept: the slideseek that wrote it can open it again
        _script(connection, path, steps)
    connection.row_factory = sqlite3.Row
    return connection


def _script(db: sqlite3.Connection, path: Path, steps: str) -> None:
    """Make or upgrade the tables of a catalogue in one commit."""
    try:
        db.executescript(f"BEGIN IMMEDIATE;{steps}PRAGMA user_version = {VERSION};COMMIT;")
    except sqlite3.Error as error:
        db.close()
        raise unusable(path, error) from error


def with_seals(db: sqlite3.Connection) -> None:
    """Give a connection the function that seals rows, and texts that are not UTF-8, as a damaged row may have."""
    db.create_function("row_seal", -1, row_seal, deterministic=True)
    db.text_factory = lambda stored: stored.decode("utf-8", "surrogateescape")


def _is_writable(path: Path) -> bool:
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def _log(path: Path) -> Path:
    """Return the write-ahead log of a catalogue."""
    return path.with_name(f"{path.name}-wal")


def _is_frozen(path: Path) -> bool:
    """Return whether a catalogue can only be read as a file that does not change.

    A reader that may not write uses the log and the shared memory of the writer, where there are any, and sees every
    commit. It cannot create them; without them, the file is complete in itself.
    """
    return path.is_file() and not _is_writable(path) and not _log(path).exists()


def _stamp(path: Path) -> tuple[int, int, bool]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, _log(path).exists()
