"""Which slides' codes changed since an index was saved: listed by triggers, read when the index is opened."""

from __future__ import annotations

import sqlite3

RECORDS = "slides"
"""Under this name the changes of the table `slides` are counted; settings are digests, so none has it."""


class CodeChanges:
    """Read and shorten the list of changes. Changes are listed only for codes that some saved index is made of."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def generation(self, settings: str) -> int:
        """Return a number that grows whenever a code made under `settings` changes."""
        row = self._db.execute("SELECT value FROM generations WHERE settings = ?", (settings,)).fetchone()
        return int(row[0]) if row else 0

    def of_records(self) -> int:
        """Return a number that grows whenever a slide is added, removed, or what is known of it changes."""
        return self.generation(RECORDS)

    def since(self, settings: str, generation: int) -> list[str]:
        """Return the ids of slides whose codes were made, changed or removed after a generation, sorted."""
        rows = self._db.execute(
            "SELECT slide_id FROM code_changes WHERE settings = ? AND generation > ? ORDER BY slide_id",
            (settings, generation),
        )
        return [row[0] for row in rows]

    def forget_settled(self) -> None:
        """Drop the changes that every saved index of their codes holds already."""
        self._db.execute(
            "DELETE FROM code_changes WHERE generation <= ifnull((SELECT min(generation) FROM indexes"
            " WHERE indexes.codes = code_changes.settings), code_changes.generation)"
        )
