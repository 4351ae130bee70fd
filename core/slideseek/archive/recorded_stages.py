"""Slides by their recorded stages, from one query of the catalogue for all of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from slideseek.archive.records import Stage

READ_BY = "; read by "
"""Between the maker of a result and the plugin that read the slide's pixels for it."""

_DONE = "SELECT slide_id FROM stages WHERE stage = ? AND settings = ? AND status = 'done'"


@dataclass(frozen=True, slots=True)
class ReadySlide:
    """A slide with features: their key, and what else a model learns from."""

    slide_id: str
    key: str
    site: str
    label: str
    patient: str


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A failure that a person has accepted: what failed, and the reason given."""

    slide_id: str
    cause: str
    reason: str

    @property
    def shown(self) -> str:
        """The cause, with the reason where one was given."""
        return f"{self.cause} (known: {self.reason})" if self.reason else f"{self.cause} (known)"


class RecordedStages:
    """List slides by their stage records; whether a record is still about the slide is for `StageCache` to decide.

    Dropping a result drops its record, so a record means that the result is there.

    Each query walks one or two indexes of the table: about one microsecond per slide.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def count(self, stage: Stage, settings: str) -> int:
        """Return the number of slides for which a stage is done."""
        query = "SELECT count(*) FROM stages WHERE stage = ? AND settings = ? AND status = 'done'"
        return int(self._db.execute(query, (stage, settings)).fetchone()[0])

    def undone(self, stage: Stage, settings: str) -> list[str]:
        """Return the ids of the slides for which a stage is not done, sorted."""
        rows = self._db.execute(f"SELECT id FROM slides EXCEPT {_DONE} ORDER BY 1", (stage, settings))
        return [row[0] for row in rows]

    def known_failures(self, settings: Iterable[str]) -> dict[str, KnownFailure]:
        """Return, by slide, the accepted failures of stages with some settings that are still what is recorded."""
        wanted = list(settings)
        rows = self._db.execute(
            "SELECT stages.slide_id, cause, reason FROM known_failures JOIN stages USING (slide_id, key)"
            f" WHERE status <> 'done' AND settings IN ({','.join('?' * len(wanted))})",
            wanted,
        )
        return {row[0]: KnownFailure(*row) for row in rows}

    def read_by(self, settings: tuple[str, str]) -> list[tuple[str, str]]:
        """Return the slides whose pixels a plugin read for patches and features, each with what is kept of it."""
        query = f"""SELECT slide_id, made_by FROM stages WHERE stage IN ('select', 'featurize')
            AND settings IN (?, ?) AND instr(made_by, '{READ_BY}') ORDER BY 1"""
        return [(row[0], row[1].partition(READ_BY)[2]) for row in self._db.execute(query, settings)]

    def to_encode(self, features: str, codes: str) -> list[str]:
        """Return the ids of the slides with features but without a code, sorted."""
        query = f"{_DONE} EXCEPT {_DONE} ORDER BY 1"
        return [row[0] for row in self._db.execute(query, ("featurize", features, "encode", codes))]

    def ready(self, features: str) -> list[ReadySlide]:
        """Return the slides whose features are done, sorted by id."""
        rows = self._db.execute(
            "SELECT id, key, site, label, patient FROM stages JOIN slides ON id = slide_id"
            " WHERE stage = 'featurize' AND settings = ? AND status = 'done' ORDER BY slide_id",
            (features,),
        )
        return [ReadySlide(*row) for row in rows]

    def files(self, folder: str) -> list[str]:
        """Return the names of the result files directly below a folder of the archive."""
        start = len(folder) + 1
        rows = self._db.execute("SELECT file FROM payloads WHERE file > ? AND file < ?", (f"{folder}/", f"{folder}0"))
        return [row[0][start:] for row in rows]

    def owners(self, file: str) -> list[str]:
        """Return the ids of the slides whose result is in a file."""
        query = "SELECT slide_id FROM stages JOIN payloads ON payloads.key = stages.key WHERE file = ?"
        return [row[0] for row in self._db.execute(query, (file,))]
