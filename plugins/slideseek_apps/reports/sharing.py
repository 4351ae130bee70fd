"""What leaves the house: slides and patients under pseudonyms, no paths, no free columns unless listed, private files.

A pseudonym is an HMAC-SHA-256 of the id under the archive's own key. The same slide has the same pseudonym in every
output of an archive; without the key nobody can compute or test one, even with a list of all ids.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slideseek.archive.archive import Archive
from slideseek.archive.files import replacing
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import DamagedError, SlideseekError, UsageError
from slideseek.searching.searcher import Answer
from slideseek.types import Hit, SlideRecord

KEY_NAME = "pseudonyms.key"
KEY_BYTES = 32
FILE_MODE = 0o640
"""Largest permissions of a written file; the umask may take more away. Others of the machine never read it."""

CENTER = "center"
"""The standard column that is shown only if it is listed, like the free ones; else centres have pseudonyms."""


@dataclass(frozen=True)
class Sharing:
    """How slides are named in an output.

    key: of the archive's pseudonyms; None for real ids and everything that is known. fields: columns shown as they are
    in a shareable output.
    """

    key: bytes | None = None
    fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, archive: Archive, identified: bool, fields: Sequence[str] = ()) -> Sharing:
        """Return the naming of an output of an archive. A column that no slide has is an error."""
        if identified and fields:
            raise UsageError("--fields and --identified exclude each other", "--identified shows every column")
        known = {CENTER, *(name for row in archive.catalog.slides for name in row.record.fields)} if fields else {}
        for name in fields:
            if name not in known:
                raise UsageError(f"no slide has a column {name!r}", did_you_mean(name, known, "see the manifest"))
        return cls(None if identified else archive_key(archive.root), tuple(fields))

    @property
    def shareable(self) -> bool:
        """Whether ids are pseudonyms."""
        return self.key is not None

    def slide(self, slide_id: str) -> str:
        """Return the name of a slide."""
        return self._name("slide", "S", slide_id)

    def record(self, record: SlideRecord) -> SlideRecord:
        """Return what is shown of a slide. In a shareable output it has no path, outline or unlisted column."""
        if self.key is None:
            return record
        return replace(
            record,
            id=self.slide(record.id),
            path="",
            patient=self._name("patient", "P", record.patient),
            center=record.center if CENTER in self.fields else self._name("center", "C", record.center),
            contours="",
            fields={name: record.fields[name] for name in self.fields if name in record.fields},
        )

    def answer(self, answer: Answer) -> Answer:
        """Return what is shown of an answer. Notes are free text, so a shareable one only counts them."""
        if self.key is None:
            return answer
        found = [
            replace(one, hit=Hit(self.slide(one.hit.slide_id), one.hit.distance), record=self.record(one.record))
            for one in answer.found
        ]
        return replace(answer, query=self.record(answer.query), found=found, notes=self.notes(answer.notes))

    def notes(self, notes: Sequence[str]) -> tuple[str, ...]:
        """Return notes for readers: their number alone in a shareable output, since they may name slides and files."""
        if self.key is None or not notes:
            return tuple(notes)
        return (f"{len(notes)} note(s) left out: they may name slides or files",)

    def settings(self, value: Any) -> Any:
        """Return settings of an engine as plain data. In a shareable output text with a folder in it is left out."""
        if self.key is None:
            return value
        if isinstance(value, Mapping):
            return {name: self.settings(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.settings(one) for one in value]
        return "(path left out)" if isinstance(value, str) and ("/" in value or "\\" in value) else value

    def _name(self, kind: str, prefix: str, text: str) -> str:
        if self.key is None or not text:
            return text
        digest = hmac.digest(self.key, f"{kind}\0{text}".encode("utf-8", "surrogatepass"), "sha256")
        return f"{prefix}-{base64.b32encode(digest[:10]).decode('ascii')}"


IDENTIFIED = Sharing()
"""Real ids and all that is known."""


def archive_key(root: Path) -> bytes:
    """Return the key of an archive's pseudonyms. The first call makes it, readable by its owner alone."""
    path = root / KEY_NAME
    try:
        if not path.exists():
            _make_key(path)
        if path.stat().st_mode & 0o077:
            raise SlideseekError(f"{path} can be read by others", f"run 'chmod 600 {path}'")
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except OSError as error:
        cause = f"the key of the pseudonyms, {path}, cannot be used ({error.strerror})"
        raise SlideseekError(cause, "ask the owner of the archive, or pass --identified") from error
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise DamagedError(f"{path} is damaged", "restore it; without it, delete it: all pseudonyms will change")
    return key


@contextmanager
def private_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file that becomes `path`, as `replacing` does; it never has more than `FILE_MODE`."""
    with replacing(path) as temporary:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
        yield temporary


def write_private(path: Path, text: str) -> None:
    """Replace a text file atomically; it never has more than `FILE_MODE`. Text is UTF-8."""
    with private_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def _make_key(path: Path) -> None:
    """Make a key. If another process makes one at the same time, the first one stays."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
            stream.write(secrets.token_hex(KEY_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
