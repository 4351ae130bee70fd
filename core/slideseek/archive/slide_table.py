"""The slides of an archive: their records, their files, and their content when added; by slide and by column.

Columns give masks over 100,000 slides without loading 100,000 records.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from slideseek.archive.schema import DAMAGED_ROWS, SEALED
from slideseek.digests import is_whole
from slideseek.errors import DamagedError
from slideseek.slides.remote_slides import look_up_all
from slideseek.types import Filter, Int32, Mask, SlideRecord, is_url

COLUMNS = ("path", "fingerprint", "patient", "site", "label", "center", "mpp", "contours", "fields", "measured")
DAMAGED, ADD_AGAIN = "the record of slide {!r} in the catalogue is damaged", "add the slide again with its manifest"
SCAN_ABOVE = 0.1
"""Share of the slides above which reading all of them is faster than looking up each one."""


FileStamp: TypeAlias = tuple[str, int, int]
"""A file of a slide: its name, its size in bytes, and the time of its last change in ns."""

FileState: TypeAlias = Literal["same", "changed", "missing", "unreachable"]
FileFacts: TypeAlias = tuple[str, str, int, int, Sequence[FileStamp]]
"""The id of a slide, and the path, bytes, mtime_ns and parts of its row."""


@dataclass(frozen=True, slots=True)
class SlideRow:
    """A slide in the catalogue: its record and the identity of its content.

    fingerprint: identifies the slide's content, independent of its path. outline: fingerprint of the tissue outline,
    "" if there is none. bytes and mtime_ns: of the file when added, for a cheap check that it has not changed. parts:
    name below the file's folder, bytes and mtime_ns of each other file of the slide. Of a remote slide, mtime_ns is a
    number of its version.
    """

    record: SlideRecord
    fingerprint: str
    bytes: int
    mtime_ns: int
    outline: str = ""
    parts: tuple[FileStamp, ...] = ()

    def file_state(self, root: Path) -> FileState:
        """Compare the slide's files with what they were when added: one `stat` per file, nothing is read."""
        return file_states(root, [self.file_facts])[self.id]

    @property
    def file_facts(self) -> FileFacts:
        """What `file_states` takes."""
        return self.id, self.record.path, self.bytes, self.mtime_ns, self.parts

    @property
    def content(self) -> list[str]:
        """What a selection depends on: the slide's content and the outline of its tissue."""
        return [self.fingerprint, self.outline] if self.outline else [self.fingerprint]

    @property
    def id(self) -> str:
        """The slide's id."""
        return self.record.id


def file_states(root: Path, slides: Iterable[FileFacts]) -> dict[str, FileState]:
    """Compare the files of slides with their size and date when added, by id. root: the archive's folder.

    Remote slides are looked up together, for a bounded time.
    """
    every = list(slides)
    remote = {path for _, path, *_ in every if is_url(path)}
    found = look_up_all(remote) if remote else {}
    return {
        facts[0]: _remote_state(found, *facts[1:4]) if facts[1] in remote else _file_state(root, *facts[1:])
        for facts in every
    }


def _remote_state(found: Mapping[str, tuple[int, int] | None], path: str, size: int, version: int) -> FileState:
    if path not in found:
        return "unreachable"
    return "missing" if found[path] is None else "same" if found[path] == (size, version) else "changed"


def _file_state(root: Path, path: str, size: int, mtime_ns: int, parts: Sequence[FileStamp]) -> FileState:
    first = os.path.join(root, path)  # noqa: PTH118 - called for every hit, and for 100,000 slides by a build
    folder = os.path.dirname(first)  # noqa: PTH120
    try:
        for name, bytes_then, then in ((first, size, mtime_ns), *parts):
            now = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118
            if (now.st_size, now.st_mtime_ns) != (bytes_then, then):
                return "changed"
    except OSError:
        return "missing"
    return "same"


class SlideTable:
    """Read and write the table `slides`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM slides").fetchone()[0])

    def __iter__(self) -> Iterator[SlideRow]:
        """Yield the slides in the order of their ids, without those whose record is damaged."""
        rows = self._db.execute("SELECT * FROM slides ORDER BY id").fetchall()
        return (_slide(row) for row in rows if is_whole(row, SEALED["slides"]))

    def damaged(self) -> list[str]:
        """Return the ids of slides whose record is not as it was written, sorted; an id may be what is damaged."""
        return [str(row[0]) for row in self._db.execute(DAMAGED_ROWS["slides"])]

    def get(self, slide_id: str) -> SlideRow | None:
        """Return the slide with an id, if there is one; `DamagedError` if its record is damaged."""
        row = self._row(slide_id)
        if row and not is_whole(row, SEALED["slides"]):
            raise DamagedError(DAMAGED.format(slide_id), ADD_AGAIN)
        return _slide(row) if row else None

    def whole(self, slide_id: str) -> SlideRow | None:
        """Return the slide with an id, if there is one and its record is not damaged."""
        row = self._row(slide_id)
        return _slide(row) if row and is_whole(row, SEALED["slides"]) else None

    def ids(self) -> list[str]:
        """Return all slide ids, sorted."""
        return [row[0] for row in self._db.execute("SELECT id FROM slides ORDER BY id")]

    def some(self, slide_ids: Sequence[str]) -> list[SlideRow]:
        """Return the slides with some ids, in that order; unknown ids and damaged records are left out."""
        if len(slide_ids) > SCAN_ABOVE * len(self):
            wanted = dict.fromkeys(slide_ids)
            found = {row.id: row for row in self if row.id in wanted}
            return [found[slide_id] for slide_id in slide_ids if slide_id in found]
        return [row for slide_id in slide_ids if (row := self.whole(slide_id)) is not None]

    def _row(self, slide_id: str) -> sqlite3.Row | None:
        found: sqlite3.Row | None = self._db.execute("SELECT * FROM slides WHERE id = ?", (slide_id,)).fetchone()
        return found

    def field(self, name: str) -> dict[str, Any]:
        """Return one column of the table by slide id; `fields` and `measured` as JSON text."""
        if name not in COLUMNS:
            raise ValueError(f"name must be one of {', '.join(COLUMNS)}, not {name!r}")
        cursor = self._db.cursor()
        cursor.row_factory = None  # plain tuples are faster
        return dict(cursor.execute(f"SELECT id, {name} FROM slides").fetchall())

    def not_as_added(self, root: Path) -> dict[str, FileState]:
        """Return the slides whose files are missing or have another size or date than when added, by id."""
        cursor = self._db.cursor()
        cursor.row_factory = None
        rows = cursor.execute("SELECT id, path, bytes, mtime_ns, parts FROM slides WHERE path <> '' ORDER BY id")
        found = rows.fetchall()
        states = file_states(root, ((*facts, _parts(text)) for *facts, text in found))
        return {slide_id: state for slide_id, state in states.items() if state != "same"}

    def copies(self) -> list[list[SlideRow]]:
        """Return the slides that have the same content, in groups."""
        query = "SELECT fingerprint FROM slides GROUP BY fingerprint HAVING count(*) > 1 ORDER BY min(id)"
        return [self.by_fingerprint(row[0]) for row in self._db.execute(query).fetchall()]

    def by_fingerprint(self, fingerprint: str) -> list[SlideRow]:
        """Return the slides that have this content."""
        rows = self._db.execute("SELECT * FROM slides WHERE fingerprint = ? ORDER BY id", (fingerprint,))
        return [_slide(row) for row in rows.fetchall() if is_whole(row, SEALED["slides"])]

    def put(self, slide: SlideRow) -> None:
        """Insert or update a slide; what was measured on other content is dropped."""
        record = slide.record
        added = datetime.now(UTC).isoformat(timespec="seconds")
        self._db.execute(
            "INSERT INTO slides VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,'{}',0) ON CONFLICT (id) DO UPDATE SET"
            " measured = iif(fingerprint = excluded.fingerprint, measured, '{}'),"
            " path = excluded.path, fingerprint = excluded.fingerprint, outline = excluded.outline,"
            " bytes = excluded.bytes, mtime_ns = excluded.mtime_ns, patient = excluded.patient,"
            " site = excluded.site, label = excluded.label, center = excluded.center, mpp = excluded.mpp,"
            " contours = excluded.contours, fields = excluded.fields, parts = excluded.parts",
            (
                *(record.id, record.path, slide.fingerprint, slide.outline, slide.bytes, slide.mtime_ns),
                *(record.patient, record.site, record.label, record.center, record.mpp, record.contours),
                *(json.dumps(dict(record.fields), sort_keys=True), added, json.dumps(slide.parts)),
            ),
        )

    def measure(self, slide_id: str, found: Mapping[str, str]) -> None:
        """Note what was measured on a slide's pixels, in addition to what is known."""
        known = "json_patch(measured, ?1)"
        self._db.execute(
            f"UPDATE slides SET measured = {known} WHERE id = ?2 AND measured <> {known}", (json.dumps(found), slide_id)
        )

    def rename(self, slide_id: str, new: str) -> None:
        """Give a slide another id; its results move with it."""
        self._db.execute("UPDATE slides SET id = ? WHERE id = ?", (new, slide_id))

    def remove(self, slide_id: str) -> None:
        """Remove a slide and all its stage records."""
        self._db.execute("DELETE FROM slides WHERE id = ?", (slide_id,))


def _slide(row: sqlite3.Row) -> SlideRow:
    plain = ("id", "path", "patient", "site", "label", "center", "mpp", "contours")
    record = SlideRecord(**{name: row[name] for name in plain}, fields=json.loads(row["fields"]))
    if row["measured"] != "{}":
        record = replace(record, measured=json.loads(row["measured"]))
    return SlideRow(record, row["fingerprint"], row["bytes"], row["mtime_ns"], row["outline"], _parts(row["parts"]))


def _parts(text: str) -> tuple[FileStamp, ...]:
    return tuple((name, size, mtime_ns) for name, size, mtime_ns in json.loads(text)) if text != "[]" else ()


@dataclass(frozen=True, slots=True)
class Column:
    """One field of n slides. number_of: maps each value to its number. numbers: int32 (n,), one per slide."""

    number_of: Mapping[Any, int]
    numbers: Int32

    @classmethod
    def of(cls, held: Sequence[Any]) -> Column:
        """Number the distinct values of the slides."""
        number_of = {value: number for number, value in enumerate(dict.fromkeys(held))}
        return cls(number_of, np.fromiter(map(number_of.__getitem__, held), np.int32, count=len(held)))

    def equal(self, values: Iterable[Any]) -> Mask:
        """Return which slides have one of a few values: bool (n,)."""
        found: Mask = np.zeros(len(self.numbers), np.bool_)
        for value in values:
            if (number := self.number_of.get(value)) is not None:
                found |= self.numbers == number
        return found

    def where(self, passes: Callable[[Any], bool]) -> Mask:
        """Return which slides have a value that passes, testing each distinct value once: bool (n,)."""
        chosen: Mask = np.fromiter(map(passes, self.number_of), np.bool_, count=len(self.number_of))
        return chosen[self.numbers]


class SlideColumns:
    """Fields of slides in the order of `ids`; each is read from the catalogue on first use."""

    def __init__(self, slides: SlideTable, ids: Sequence[str]) -> None:
        self.ids = ids
        self._slides = slides
        self._columns: dict[tuple[str, bool], Column] = {}

    def column(self, name: str, free: bool = False) -> Column:
        """Return a field of the record, or with `free` another column of the manifest or measured one (or None)."""
        if (name, free) not in self._columns:
            if free:
                nothing: Mapping[str, str] = {}
                held: list[Any] = [self._free.get(slide_id, nothing).get(name) for slide_id in self.ids]
            elif name == "id":
                held = list(self.ids)
            else:
                held = list(map(self._slides.field(name).get, self.ids))
            self._columns[name, free] = Column.of(held)
        return self._columns[name, free]

    @cached_property
    def free_names(self) -> tuple[str, ...]:
        """Names of the free fields of all slides of the archive, sorted."""
        return tuple(sorted({name for fields in self._free.values() for name in fields}))

    def those(self, slide_ids: Iterable[str]) -> Mask:
        """Return which slides have one of a few ids: bool (n,)."""
        wanted = set(slide_ids)
        if len(wanted) > 8:  # each is looked for from the start of the list
            return np.fromiter((one in wanted for one in self.ids), np.bool_, count=len(self.ids))
        found: Mask = np.zeros(len(self.ids), np.bool_)
        for slide_id in wanted:
            with suppress(ValueError):
                found[self.ids.index(slide_id)] = True
        return found

    def among(self, name: str, values: Iterable[str]) -> Mask:
        """Return which slides have one of a few values in a field of the record: bool (n,)."""
        return self.column(name).equal(values)

    def passing(self, condition: Filter) -> Mask:
        """Return which slides pass a condition: bool (n,)."""
        name, free, values = condition.field, condition.free, condition.values
        if not free and name != "mpp" and condition.sign in ("=", "!=", "in", "not in"):
            equal = self.those(values) if name == "id" else self.among(name, values)
            return ~equal if condition.sign in ("!=", "not in") else equal

        def passes(value: Any) -> bool:
            if free:
                return condition(SlideRecord("", "", fields={} if value is None else {name: value}))
            return condition(SlideRecord(**{"id": "", "path": "", name: value}))

        return self.column(name, free).where(passes)

    def record(self, slide_id: str) -> SlideRecord | None:
        """Return the record of one slide, from the catalogue."""
        row = self._slides.get(slide_id)
        return row.record if row else None

    @cached_property
    def _free(self) -> dict[str, Mapping[str, str]]:
        """The free and measured fields of every slide of the archive, by id."""
        known = self._slides.field("fields")
        for slide_id in self._slides.damaged():  # whatever is in them
            known.pop(slide_id, None)
        parsed = json.loads(f"[{','.join(known.values())}]")  # four times as fast as parsing each separately
        found: dict[str, Mapping[str, str]] = dict(zip(known, parsed, strict=True))
        for name, text in self._slides.field("measured").items():
            if text != "{}" and name in found:
                found[name] = SlideRecord("", "", fields=found[name], measured=json.loads(text)).columns
        return found
