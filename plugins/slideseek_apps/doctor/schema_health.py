"""Compare the tables, indexes and triggers of a catalogue with those that a new one has.

SQLite keeps them as text. A flipped bit there may leave a valid statement, such as a trigger that seals no row.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from slideseek.archive.catalog import with_seals
from slideseek.archive.schema import KNOWN_FAILURES, SEALS, TABLES, WATCH


def changed_schema(path: Path) -> str:
    """Return the name of a table, an index or a trigger that is not as it should be, "" if all are.

    Tables that were upgraded from an older version are compared by their columns: their texts differ.
    """
    upgraded = any(path.parent.glob(f"{path.stem}-[0-9]*{path.suffix}"))
    with closing(sqlite3.connect(":memory:")) as db:
        with_seals(db)
        db.executescript(f"{TABLES}{KNOWN_FAILURES}{WATCH}{SEALS}")
        wanted = _schema(db, upgraded)
    with closing(sqlite3.connect(path)) as db:
        with_seals(db)
        found = _schema(db, upgraded)
    return next((name for name, text in wanted.items() if found.get(name) != text), "")


def _schema(db: sqlite3.Connection, upgraded: bool) -> dict[str, str]:
    """Return what defines each table, index and trigger, by name, without white space."""
    found = {}
    for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall():
        if upgraded and kind == "table":
            columns = db.execute('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (name,))
            found[name] = repr(sorted(map(repr, columns)))
        else:
            found[name] = "".join(sql.split())
    return found
