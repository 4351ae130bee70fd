"""What people write down in the viewer: collections of slides with notes, and annotations. Kept in the archive."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slideseek.archive.catalog import now
from slideseek.errors import SlideseekError, UsageError

NOTEBOOK_NAME = "notebook.sqlite"
WAIT_SECONDS = 5.0
MAX_COLLECTIONS = 1000
MAX_SLIDES = 10_000
"""Most slides of one collection."""

_TABLES = """
CREATE TABLE IF NOT EXISTS collections (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
  made TEXT NOT NULL, who TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS collected (collection INTEGER NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
  slide_id TEXT NOT NULL, note TEXT NOT NULL, added TEXT NOT NULL, who TEXT NOT NULL,
  PRIMARY KEY (collection, slide_id));
CREATE TABLE IF NOT EXISTS annotations (slide_id TEXT PRIMARY KEY, revision INTEGER NOT NULL, shapes TEXT NOT NULL,
  changed TEXT NOT NULL, who TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of slides. made: when, ISO 8601 in UTC. slides: how many it has."""

    id: int
    name: str
    made: str
    who: str
    slides: int


@dataclass(frozen=True, slots=True)
class Collected:
    """A slide of a collection, with a note."""

    slide_id: str
    note: str
    added: str
    who: str


class Notebook:
    """The notebook of one archive. Each call has its own connection, so any thread and any server may use it."""

    def __init__(self, root: Path, writable: bool = True) -> None:
        self._path = root / NOTEBOOK_NAME
        self._writable = writable

    def collections(self) -> list[Collection]:
        """Return all collections by name."""
        counted = (
            "SELECT c.*, count(s.slide_id) AS slides FROM collections c LEFT JOIN collected s ON s.collection = c.id"
        )
        with self._reading() as db:
            return [Collection(*row) for row in db.execute(f"{counted} GROUP BY c.id ORDER BY c.name")] if db else []

    def create(self, name: str, who: str = "") -> Collection:
        """Make an empty collection."""
        with self._writing() as db:
            if db.execute("SELECT count(*) FROM collections").fetchone()[0] >= MAX_COLLECTIONS:
                raise UsageError(f"there are {MAX_COLLECTIONS} collections already", "delete one")
            made = now()
            values = _named(name), made, who
            found = _once(db, "INSERT INTO collections (name, made, who) VALUES (?,?,?)", values, name)
            return Collection(int(found.lastrowid or 0), _named(name), made, who, 0)

    def rename(self, number: int, name: str) -> None:
        """Give a collection another name."""
        with self._writing() as db:
            self._require(db, number)
            _once(db, "UPDATE collections SET name = ? WHERE id = ?", (_named(name), number), name)

    def delete(self, number: int) -> None:
        """Delete a collection and its notes."""
        with self._writing() as db:
            self._require(db, number)
            db.execute("DELETE FROM collections WHERE id = ?", (number,))

    def slides(self, number: int) -> list[Collected]:
        """Return the slides of a collection in the order in which they were added."""
        listed = "SELECT slide_id, note, added, who FROM collected WHERE collection = ? ORDER BY added, slide_id"
        with self._reading() as db:
            if db is None:
                raise _no_collection(number)
            self._require(db, number)
            return [Collected(*row) for row in db.execute(listed, (number,))]

    def holding(self, slide_id: str) -> dict[int, str]:
        """Return the collections that a slide is in, with its notes."""
        with self._reading() as db:
            found = db.execute("SELECT collection, note FROM collected WHERE slide_id = ?", (slide_id,)) if db else ()
            return {int(number): str(note) for number, note in found}

    def put(self, number: int, slide_id: str, note: str, who: str = "") -> None:
        """Add a slide to a collection, or change its note."""
        with self._writing() as db:
            self._require(db, number)
            if db.execute("SELECT count(*) FROM collected WHERE collection = ?", (number,)).fetchone()[0] >= MAX_SLIDES:
                raise UsageError(f"the collection has {MAX_SLIDES:,} slides already", "start another one")
            db.execute(
                "INSERT INTO collected VALUES (?,?,?,?,?)"
                " ON CONFLICT DO UPDATE SET note = excluded.note, who = excluded.who",
                (number, slide_id, note, now(), who),
            )

    def drop(self, number: int, slide_id: str) -> None:
        """Take a slide out of a collection."""
        with self._writing() as db:
            db.execute("DELETE FROM collected WHERE collection = ? AND slide_id = ?", (number, slide_id))

    def annotations(self, slide_id: str) -> tuple[int, list[dict[str, Any]]]:
        """Return the revision of a slide's annotations, 0 if there are none yet, and them as GeoJSON features."""
        with self._reading() as db:
            asked = "SELECT revision, shapes FROM annotations WHERE slide_id = ?"
            row = db.execute(asked, (slide_id,)).fetchone() if db else None
        return (int(row[0]), json.loads(row[1])) if row else (0, [])

    def annotate(self, slide_id: str, revision: int, shapes: Sequence[Mapping[str, Any]], who: str = "") -> int:
        """Replace a slide's annotations and return their revision. revision: of those that were changed."""
        with self._writing() as db:
            row = db.execute("SELECT revision FROM annotations WHERE slide_id = ?", (slide_id,)).fetchone()
            if (row[0] if row else 0) != revision:
                raise SlideseekError(
                    "somebody else has changed the annotations of this slide meanwhile",
                    "reload the page, then draw again",
                )
            text = json.dumps(list(shapes), ensure_ascii=False, separators=(",", ":"))
            values = slide_id, revision + 1, text, now(), who
            db.execute("INSERT OR REPLACE INTO annotations VALUES (?,?,?,?,?)", values)
        return revision + 1

    def _require(self, db: sqlite3.Connection, number: int) -> None:
        if db.execute("SELECT 1 FROM collections WHERE id = ?", (number,)).fetchone() is None:
            raise _no_collection(number)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self._path.exists():
            yield None
            return
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, timeout=WAIT_SECONDS)) as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if not self._writable:
            raise SlideseekError(
                "nothing can be written: the server was started with --read-only", "ask who started it"
            )
        try:
            with closing(sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None)) as db:
                db.execute("PRAGMA foreign_keys = ON")
                db.executescript(_TABLES)
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise SlideseekError(f"the notebook of the archive cannot be written ({error})", "try again") from error


def _named(name: str) -> str:
    shown = " ".join(name.split())
    if not shown:
        raise UsageError("the collection has no name", "give it one")
    return shown


def _once(db: sqlite3.Connection, statement: str, values: Sequence[Any], name: str) -> sqlite3.Cursor:
    try:
        return db.execute(statement, values)
    except sqlite3.IntegrityError as error:
        raise UsageError(f"there is a collection {_named(name)!r} already", "choose another name") from error


def _no_collection(number: int) -> UsageError:
    return UsageError(f"no collection {number} in this archive", "it may have been deleted: reload the page")
