"""The tables of the catalogue, and how an older catalogue is brought up to date."""

from __future__ import annotations

from collections.abc import Mapping

VERSION = 6

TABLES = """
CREATE TABLE slides (
    id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    outline TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    patient TEXT NOT NULL,
    site TEXT NOT NULL,
    label TEXT NOT NULL,
    center TEXT NOT NULL,
    mpp REAL,
    contours TEXT NOT NULL,
    fields TEXT NOT NULL,
    added TEXT NOT NULL,
    parts TEXT NOT NULL DEFAULT '[]',
    measured TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX slides_by_fingerprint ON slides (fingerprint);

CREATE TABLE stages (
    slide_id TEXT NOT NULL REFERENCES slides (id) ON DELETE CASCADE ON UPDATE CASCADE,
    stage TEXT NOT NULL,
    settings TEXT NOT NULL,
    key TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'empty', 'failed')),
    cause TEXT NOT NULL,
    fix TEXT NOT NULL,
    notes TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    seconds REAL NOT NULL,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    unreadable INTEGER NOT NULL,
    filled INTEGER NOT NULL,
    updated TEXT NOT NULL,
    made_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (slide_id, stage, settings)
) STRICT;
CREATE INDEX stages_by_key ON stages (key);

CREATE TABLE payloads (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('patches', 'features', 'code')),
    meta TEXT NOT NULL,
    data BLOB,
    file TEXT UNIQUE,
    sha256 TEXT NOT NULL
) STRICT;

CREATE TABLE models (
    settings TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    folder TEXT NOT NULL,
    learnt_from TEXT NOT NULL,
    files TEXT NOT NULL,
    slides INTEGER NOT NULL,
    seconds REAL NOT NULL,
    created TEXT NOT NULL
) STRICT;

CREATE TABLE engines (name TEXT PRIMARY KEY, signature TEXT NOT NULL, resolved TEXT NOT NULL) STRICT;

CREATE TABLE generations (settings TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;

CREATE TABLE indexes (
    engine TEXT PRIMARY KEY,
    settings TEXT NOT NULL,
    codes TEXT NOT NULL,
    generation INTEGER NOT NULL,
    folder TEXT NOT NULL,
    files TEXT NOT NULL,
    slides INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    created TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    command TEXT NOT NULL,
    started TEXT NOT NULL,
    finished TEXT,
    outcome TEXT,
    config TEXT NOT NULL,
    versions TEXT NOT NULL,
    counts TEXT
) STRICT;
"""

# Triggers watch the data that indexes and masks are derived from: no code path can change it unnoticed.
# Changes of slides are counted. Every change of a code gets the next generation of its settings. Once an index is
# saved, the slides changed since are listed, each with its last change. Dropping a result also drops its stage
# records, so every result recorded as done exists. Imported selections may be recorded without being stored, so
# selections are not watched.
WATCH = """
CREATE INDEX IF NOT EXISTS stages_done ON stages (stage, settings, status, slide_id);
CREATE INDEX IF NOT EXISTS stages_unreadable ON stages (stage, settings) WHERE unreadable > 0;
CREATE TABLE IF NOT EXISTS code_changes (
    settings TEXT NOT NULL,
    slide_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (settings, slide_id)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS code_inserted AFTER INSERT ON stages WHEN new.stage = 'encode' BEGIN
    INSERT INTO generations VALUES (new.settings, 1) ON CONFLICT DO UPDATE SET value = value + 1;
    INSERT INTO code_changes SELECT settings, new.slide_id, value FROM generations
        WHERE settings = new.settings AND EXISTS (SELECT 1 FROM indexes WHERE codes = new.settings)
        ON CONFLICT DO UPDATE SET generation = excluded.generation;
END;
CREATE TRIGGER IF NOT EXISTS code_updated AFTER UPDATE OF slide_id, stage, settings, key, status, updated ON stages
    WHEN new.stage = 'encode' BEGIN
    INSERT INTO generations VALUES (new.settings, 1) ON CONFLICT DO UPDATE SET value = value + 1;
    INSERT INTO code_changes SELECT settings, slide_id, value FROM generations
        JOIN (SELECT old.slide_id AS slide_id UNION SELECT new.slide_id)
        WHERE settings = new.settings AND EXISTS (SELECT 1 FROM indexes WHERE codes = new.settings)
        ON CONFLICT DO UPDATE SET generation = excluded.generation;
END;
CREATE TRIGGER IF NOT EXISTS code_deleted AFTER DELETE ON stages WHEN old.stage = 'encode' BEGIN
    INSERT INTO generations VALUES (old.settings, 1) ON CONFLICT DO UPDATE SET value = value + 1;
    INSERT INTO code_changes SELECT settings, old.slide_id, value FROM generations
        WHERE settings = old.settings AND EXISTS (SELECT 1 FROM indexes WHERE codes = old.settings)
        ON CONFLICT DO UPDATE SET generation = excluded.generation;
END;
CREATE TRIGGER IF NOT EXISTS slide_inserted AFTER INSERT ON slides BEGIN
    INSERT INTO generations VALUES ('slides', 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;
CREATE TRIGGER IF NOT EXISTS slide_updated AFTER UPDATE OF id, path, fingerprint, outline, bytes, mtime_ns,
    patient, site, label, center, mpp, contours, fields, measured ON slides BEGIN
    INSERT INTO generations VALUES ('slides', 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;
CREATE TRIGGER IF NOT EXISTS slide_deleted AFTER DELETE ON slides BEGIN
    INSERT INTO generations VALUES ('slides', 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;
CREATE TRIGGER IF NOT EXISTS result_dropped AFTER DELETE ON payloads WHEN old.kind <> 'patches' BEGIN
    DELETE FROM stages WHERE key = old.key AND status <> 'failed';
END;
"""

FROM_1 = f"""
DROP TRIGGER IF EXISTS codes_inserted;
DROP TRIGGER IF EXISTS codes_updated;
DROP TRIGGER IF EXISTS codes_deleted;
DROP INDEX IF EXISTS stages_by_settings;
DELETE FROM indexes;
DELETE FROM stages WHERE stage <> 'select' AND status <> 'failed'
    AND NOT EXISTS (SELECT 1 FROM payloads WHERE payloads.key = stages.key);
{WATCH}
"""
"""Saved indexes are dropped: version 1 did not list what changed after they were saved."""

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

KNOWN_FAILURES = """
CREATE TABLE known_failures (
    slide_id TEXT NOT NULL REFERENCES slides (id) ON DELETE CASCADE ON UPDATE CASCADE,
    key TEXT NOT NULL,
    reason TEXT NOT NULL,
    noted TEXT NOT NULL,
    PRIMARY KEY (slide_id, key)
) STRICT, WITHOUT ROWID;
"""
"""Failures that a person has seen and accepted, each by the key of the stage that failed: of this content, with these
settings."""

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

QUERY_LOG = """
CREATE TABLE IF NOT EXISTS query_engines (signature TEXT PRIMARY KEY, resolved TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS queries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    asked TEXT NOT NULL,
    who TEXT NOT NULL,
    source TEXT NOT NULL,
    session TEXT NOT NULL,
    engine TEXT NOT NULL,
    signature TEXT NOT NULL REFERENCES query_engines (signature),
    request TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS queries_by_session ON queries (session);
"""
"""The query log; created with the first logged query, since nothing else in the catalogue depends on it."""
