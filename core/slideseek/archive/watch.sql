-- Triggers watch the data that indexes and masks are derived from: no code path can change it unnoticed.
-- Changes of slides are counted. Every change of a code gets the next generation of its settings. Once an index is
-- saved, the slides changed since are listed, each with its last change. Dropping a result also drops its stage
-- records, so every result recorded as done exists. Imported selections may be recorded without being stored, so
-- selections are not watched.
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
