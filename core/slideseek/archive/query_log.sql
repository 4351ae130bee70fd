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
