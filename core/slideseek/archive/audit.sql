-- Who searched and exported what.
CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY, happened TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, digest TEXT NOT NULL
) STRICT
