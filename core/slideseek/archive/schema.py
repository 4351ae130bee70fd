"""The tables of the catalogue, and how an older catalogue is brought up to date."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_HERE = Path(__file__)
VERSION = 6

TABLES = _HERE.with_name("tables.sql").read_text(encoding="utf-8")

WATCH = _HERE.with_name("watch.sql").read_text(encoding="utf-8")
"""Triggers that watch the data which indexes and masks are derived from: no code path can change it unnoticed."""

FROM_1 = _HERE.with_name("from_1.sql").read_text(encoding="utf-8") + WATCH

SEALED: Mapping[str, tuple[str, ...]] = {
    "slides": (
        *("id", "path", "fingerprint", "outline", "bytes", "mtime_ns", "patient", "site", "label", "center", "mpp"),
        *("contours", "fields", "added", "parts", "measured"),
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
DAMAGED_ROWS: dict[str, str] = {}
"""SQL for the keys of rows that are not as they were written, by table."""

# SQLite checks the structure of its pages, not their content: a flipped bit in a patient or a path would go unnoticed.
# Triggers seal a row whenever it is written, so no code path can forget it; a program without the function `row_seal`
# cannot write these tables at all. Texts are passed as bytes: a flipped bit can make them anything but UTF-8.
SEALS = "CREATE INDEX stages_read_by ON stages (stage, settings) WHERE instr(made_by, '; read by ');"
"""Seals every row there is, and from then on every row that is written."""

_SEAL: dict[str, str] = {}
for _table, _columns in SEALED.items():
    _plain = f"CAST({' AS BLOB), CAST('.join(_columns)} AS BLOB)"
    for _name in _NUMBERS:
        _plain = f", {_plain},".replace(f", CAST({_name} AS BLOB),", f", {_name},")[2:-1]
    _row = f"UPDATE {_table} SET seal = row_seal({_plain})"
    DAMAGED_ROWS[_table] = f"SELECT {_columns[0]} FROM {_table} WHERE row_seal({_plain}) <> seal ORDER BY 1"
    _SEAL[_table] = (
        f"ALTER TABLE {_table} ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;{_row};"
        f"CREATE TRIGGER {_table}_sealed AFTER INSERT ON {_table} BEGIN {_row} WHERE rowid = new.rowid; END;"
        f"CREATE TRIGGER {_table}_sealed_again AFTER UPDATE OF {', '.join(_columns)} ON {_table}"
        f" BEGIN {_row} WHERE rowid = new.rowid; END;"
    )
    SEALS += _SEAL[_table]

DAMAGED_ROWS["generations"] = (
    "SELECT engine FROM indexes WHERE generation > ifnull((SELECT value FROM generations WHERE settings = codes), 0)"
)

KNOWN_FAILURES = _HERE.with_name("known_failures.sql").read_text(encoding="utf-8")

FROM_2 = "ALTER TABLE stages ADD COLUMN made_by TEXT NOT NULL DEFAULT '';"
"""Results of version 2 do not say who made them."""

FROM_3 = f"ALTER TABLE slides ADD COLUMN parts TEXT NOT NULL DEFAULT '[]';{KNOWN_FAILURES}"
"""Version 3 knew the size and date of a slide's first file only."""

FROM_4 = (
    "ALTER TABLE slides ADD COLUMN measured TEXT NOT NULL DEFAULT '{}';"
    f"DROP TRIGGER IF EXISTS code_updated;DROP TRIGGER IF EXISTS slide_updated;{WATCH}{SEALS}"
)
"""Rows of version 4 have no seals, and its triggers would take sealing a row for a change."""

FROM_5 = (
    "DROP TRIGGER slide_updated;DROP TRIGGER slides_sealed;DROP TRIGGER slides_sealed_again;"
    "ALTER TABLE slides DROP COLUMN seal;ALTER TABLE slides ADD COLUMN measured TEXT NOT NULL DEFAULT '{}';"
    f"{_SEAL['slides']}{WATCH}"
)
"""Version 5 did not know what was measured on slides; coming from an older one, the step before adds it."""

DISCARDED = "CREATE TABLE IF NOT EXISTS discarded (file TEXT PRIMARY KEY) STRICT"
"""Files to delete; created with the first, so that the next writer finishes what a killed one began."""

QUERY_LOG = _HERE.with_name("query_log.sql").read_text(encoding="utf-8")
"""The query log; created with the first logged query, since nothing else in the catalogue depends on it."""

AUDIT = _HERE.with_name("audit.sql").read_text(encoding="utf-8")
"""Who searched and exported what, each entry chained to the one before: see `slideseek.searching.query_log`."""
