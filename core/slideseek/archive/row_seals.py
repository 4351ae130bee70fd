"""Checksums of the catalogue's rows: a flipped bit in a patient, a path or a key is noticed when the row is read.

SQLite checks the structure of its pages, not their content. Triggers seal a row whenever it is written, so no code path
can forget it; a program without the function `row_seal` cannot write these tables at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any
from zlib import crc32

SEALED: Mapping[str, tuple[str, ...]] = {
    "slides": (
        *("id", "path", "fingerprint", "outline", "bytes", "mtime_ns", "patient", "site", "label", "center", "mpp"),
        *("contours", "fields", "added", "parts"),
    ),
    "stages": (
        *("slide_id", "stage", "settings", "key", "status", "cause", "fix", "notes", "attempts", "seconds", "items"),
        *("bytes", "unreadable", "filled", "updated", "made_by"),
    ),
    "payloads": ("key", "kind", "meta", "file", "sha256"),
    "models": ("settings", "key", "folder", "learnt_from", "files", "slides", "seconds", "created"),
    "engines": ("name", "signature", "resolved"),
    "indexes": ("engine", "settings", "codes", "generation", "folder", "files", "slides", "bytes", "created"),
}
"""The sealed columns by table, its key first; the bytes of a payload have a SHA-256 of their own."""


_NUMBERS = frozenset(
    ("bytes", "mtime_ns", "mpp", "attempts", "seconds", "items", "unreadable", "filled", "slides", "generation")
)


def row_seal(*values: Any) -> int:
    """Return the checksum of a row's values, texts as bytes: a flipped bit can make them anything but UTF-8."""
    return crc32(repr(values).encode())


def _sealed(table: str, of: str = "") -> str:
    texts = (f"{of}{name}" if name in _NUMBERS else f"CAST({of}{name} AS BLOB)" for name in SEALED[table])
    return f"row_seal({', '.join(texts)})"


def _triggers(table: str) -> str:
    seal = f"UPDATE {table} SET seal = {_sealed(table, 'new.')} WHERE rowid = new.rowid"
    columns = ", ".join(SEALED[table])
    return (
        f"CREATE TRIGGER {table}_sealed AFTER INSERT ON {table} BEGIN {seal}; END;"
        f"CREATE TRIGGER {table}_sealed_again AFTER UPDATE OF {columns} ON {table} BEGIN {seal}; END;"
    )


SEALS = "".join(
    f"ALTER TABLE {table} ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;"
    f"UPDATE {table} SET seal = {_sealed(table)};{_triggers(table)}"
    for table in SEALED
)
"""Seals every row there is, and from then on every row that is written."""


def is_whole(row: sqlite3.Row, table: str) -> bool:
    """Return whether a row, with all columns of its table, is as it was written."""
    values = (row[name] for name in SEALED[table])
    plain = (value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value for value in values)
    return bool(row_seal(*plain) == row["seal"])


def prepare(db: sqlite3.Connection) -> None:
    """Give a connection the function of the triggers, and texts that are not UTF-8, as a damaged row may have."""
    db.create_function("row_seal", -1, row_seal, deterministic=True)
    db.text_factory = _text


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def damaged_rows(db: sqlite3.Connection, table: str) -> list[str]:
    """Return the keys of a table's damaged rows."""
    query = f"SELECT {SEALED[table][0]} FROM {table} WHERE {_sealed(table)} <> seal ORDER BY 1"
    return [str(row[0]) for row in db.execute(query)]
