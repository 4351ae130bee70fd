-- The tables of a new catalogue.
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
