"""Repair the configuration and the catalogue of an archive. What is derived from them is left to a build.

A damaged catalogue is rebuilt: a new one takes over every row that can be read and is as it was written. Saved indexes
are not taken over, since what has changed since they were saved may be lost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from slideseek.archive.archive import CATALOG_NAME, CONFIG_KEPT, LOCK_NAME, Archive
from slideseek.archive.catalog import Catalog, now, with_seals
from slideseek.archive.files import move, replacing, write_bytes, write_text
from slideseek.archive.schema import DAMAGED_ROWS, SEALED
from slideseek.config import CONFIG_NAME, parse_config
from slideseek.digests import is_whole
from slideseek.errors import BusyError, SlideseekError, UsageError
from slideseek_apps.doctor.payload_health import PLACELESS
from slideseek_apps.doctor.schema_health import changed_schema

LEFT = ("indexes", "code_changes", "sqlite_sequence")
"""Tables that are not taken over: they are derived, or SQLite's own."""

_LOST = (
    "SELECT slide_id FROM stages WHERE stage = 'select' AND status = 'done' AND key NOT IN (SELECT key FROM payloads)"
    f" AND instr(notes, '{PLACELESS}') = 0"
)
INCOMPLETE = (
    f"DELETE FROM payloads WHERE key IN (SELECT key FROM stages WHERE stage = 'featurize' AND slide_id IN ({_LOST}))",
    f"DELETE FROM stages WHERE stage = 'select' AND slide_id IN ({_LOST})",
    "DELETE FROM stages WHERE stage <> 'select' AND status <> 'failed' AND key NOT IN (SELECT key FROM payloads)",
)
"""Drops the records of results that are lost; a selection is computed again together with its features."""

Rows = list[sqlite3.Row]


@dataclass
class Repaired:
    """What was done. lost: slides whose record is damaged and in no backup."""

    notes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def repair_configuration(root: Path, even_edited: bool, backup: Path | None) -> Iterator[str]:
    """Restore the text of the last build if the file is damaged; yield what was done. backup: another source of it."""
    file, known = root / CONFIG_NAME, None
    with suppress(SlideseekError), Archive(root) as archive:
        known = archive.catalog.last_engine(CONFIG_KEPT)
    text = known["text"] if known else None
    if text is None and backup is not None and (backup / CONFIG_NAME).is_file():
        text = (backup / CONFIG_NAME).read_text(encoding="utf-8")
    if text is None or file.read_bytes() == text.encode():
        return
    damaged = known is None or file.stat().st_mtime_ns == known["mtime_ns"]
    if damaged or even_edited:
        parse_config(text)
        write_text(root / f"{CONFIG_NAME}.damaged", file.read_bytes().decode("utf-8", "replace"))
        write_text(file, text)
        yield f"restored {CONFIG_NAME} as of the last build; the former text is in {CONFIG_NAME}.damaged"


def repair_catalogue(root: Path, backup: Path | None = None, wait: Callable[[str], None] | None = None) -> Repaired:
    """Rebuild the catalogue of an archive if anything in it is damaged. backup: a copy of the archive."""
    path, done = root / CATALOG_NAME, Repaired()
    with _locked(root, wait):
        if path.is_file() and _is_sound(path):
            return done
        if backup is not None and not (backup / CATALOG_NAME).is_file():
            raise UsageError(f"{backup} is not a backup of an archive (no {CATALOG_NAME})")
        with replacing(path.with_name("catalog-new.sqlite")) as temporary:
            Catalog(temporary, create=True).close()
            found, broken = _salvaged(path)
            spare = _salvaged(backup / CATALOG_NAME)[0] if backup else {}
            done.notes.append(f"rebuilt {CATALOG_NAME} from {sum(map(len, found.values())):,} undamaged rows")
            done.lost = _fill(temporary, found, spare, broken)
            with closing(sqlite3.connect(temporary)) as db:  # one file, without a log
                db.execute("PRAGMA journal_mode = DELETE")
        aside = path.with_name(f"catalog-damaged-{now().replace(':', '')}.sqlite")
        if path.exists():
            write_bytes(aside, path.read_bytes())
            done.notes.append(f"the damaged catalogue is kept as {aside.name}")
        for suffix in ("-wal", "-shm"):
            if (log := path.with_name(path.name + suffix)).exists():
                move(log, aside.with_name(aside.name + suffix))
        move(path.with_name("catalog-new.sqlite"), path)
    return done


@contextmanager
def _locked(root: Path, wait: Callable[[str], None] | None) -> Iterator[None]:
    """Hold the lock of an archive that may not open."""
    lock = FileLock(root / LOCK_NAME)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        if wait is None:
            raise BusyError(
                f"another slideseek is writing to {root}", "wait until it is done; or pass --wait"
            ) from error
        wait(f"another slideseek is writing to {root}: waiting until it is done")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _is_sound(path: Path) -> bool:
    """Return whether a catalogue can be opened and every page, index and row of it is as it was written."""
    try:
        with closing(Catalog(path)) as catalog:
            if catalog.damaged():
                return False
        with closing(sqlite3.connect(path)) as db:
            whole = db.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok"
        return bool(whole and not changed_schema(path))
    except (sqlite3.Error, SlideseekError, ValueError):
        return False


def _salvaged(path: Path) -> tuple[dict[str, Rows], list[str]]:
    """Return the rows of a catalogue that are as they were written, by table, and the ids of slides that are not."""
    found: dict[str, Rows] = {}
    broken: list[str] = []
    with suppress(sqlite3.Error, ValueError, IndexError), closing(sqlite3.connect(path)) as db:
        with_seals(db)
        db.row_factory = sqlite3.Row
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if name in LEFT:
                continue
            rows = _readable(db, name)
            found[name] = [row for row in rows if name not in SEALED or is_whole(row, SEALED[name])]
        with suppress(sqlite3.Error):
            broken = [str(row[0]) for row in db.execute(DAMAGED_ROWS["slides"])]
    return found, broken


def _readable(db: sqlite3.Connection, table: str) -> Rows:
    """Return the rows of a table from its beginning and from its end, up to a page that cannot be read."""
    rows: dict[str, sqlite3.Row] = {}
    for order in ("", " ORDER BY 1 DESC"):
        with suppress(sqlite3.Error, ValueError):
            for row in db.execute(f'SELECT * FROM "{table}" NOT INDEXED{order}'):
                rows[repr(tuple(row))] = row
    return list(rows.values())


def _fill(path: Path, found: dict[str, Rows], spare: dict[str, Rows], broken: list[str]) -> list[str]:
    """Put rows into a new catalogue, those of a backup where there is none; return the slides that are lost."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        with_seals(db)
        tables = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())
        db.execute("BEGIN IMMEDIATE")
        # Slides first: results refer to them. A backup fills in slides that are missing, with their results.
        missing = {row["id"] for row in spare.get("slides", ())} - {row["id"] for row in found.get("slides", ())}
        stages = [row for row in spare.get("stages", ()) if row["slide_id"] in missing]
        keys = {row["key"] for row in stages}
        extra = {
            **{name: spare.get(name, []) for name in ("slides", "engines", "models")},
            "stages": stages,
            "payloads": [row for row in spare.get("payloads", ()) if row["key"] in keys],
        }
        for source in (found, extra):
            for name in sorted(source, key=lambda table: (table != "slides", table)):
                rows = source[name]
                if name not in tables or not rows:
                    continue
                columns = ", ".join(f'"{column}"' for column in rows[0].keys())  # noqa: SIM118
                marks = ",".join("?" * len(rows[0]))
                for row in rows:
                    with suppress(sqlite3.Error):  # a row that no longer fits, such as of a slide that is lost
                        db.execute(f'INSERT OR IGNORE INTO "{name}" ({columns}) VALUES ({marks})', tuple(row))
        for statement in (*INCOMPLETE, "DELETE FROM stages WHERE slide_id NOT IN (SELECT id FROM slides)"):
            db.execute(statement)
        db.execute("DELETE FROM known_failures WHERE slide_id NOT IN (SELECT id FROM slides)")
        there = {row[0] for row in db.execute("SELECT id FROM slides")}
        wanted = {*broken, *(row["slide_id"] for row in found.get("stages", ()))}
        db.execute("COMMIT")
    return sorted(wanted - there)
