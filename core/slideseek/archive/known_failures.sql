-- Failures that a person has seen and accepted, each by the key of the stage that failed: of this content, with these settings.
CREATE TABLE known_failures (
    slide_id TEXT NOT NULL REFERENCES slides (id) ON DELETE CASCADE ON UPDATE CASCADE,
    key TEXT NOT NULL,
    reason TEXT NOT NULL,
    noted TEXT NOT NULL,
    PRIMARY KEY (slide_id, key)
) STRICT, WITHOUT ROWID;
