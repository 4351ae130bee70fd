"""The features of a part of a slide, kept on disk so that an interrupted slide goes on where it stopped.

A part is a file named by its place and the SHA-256 of its content, in a folder named by the key of the features: of
this content, with these settings. A part that is damaged or does not fit is dropped with all after it.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slideseek.archive.files import remove, write_bytes
from slideseek.digests import digest_bytes
from slideseek.types import Float32, Int64

FOLDER = "parts"

PART_PATCHES, PART_SECONDS = 512, 30.0
"""Patches after which a part is written, or the time after which it is written although there are fewer."""


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """How far the patches of a slide have been read: the next patch, and what could not be read until there.

    unreadable, filled: regions and pixels of the slide, as in `Facts`. left_out: patches that could not be decoded.
    """

    next: int
    unreadable: int = 0
    filled: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """The parts of a slide found on disk: where to go on, the rows int64 (m,), their features float32 (m, width)."""

    read: ReadSoFar
    rows: Int64
    features: Float32


class Parts:
    """The parts of one slide's features."""

    def __init__(self, root: Path, settings: str, key: str) -> None:
        self._folder = root / FOLDER / settings[:16] / key[:32]
        self._first = 0
        self._rows: list[Int64] = []
        self._features: list[Float32] = []
        self._since = time.monotonic()

    def begun(self, width: int, patches: int) -> Begun | None:
        """Return what an interrupted build left, None if nothing can be used."""
        read, rows, features = ReadSoFar(0), [np.zeros(0, np.int64)], [np.zeros((0, width), np.float32)]
        for file in sorted(self._folder.glob("*.npz")):
            part = _read(file)
            if part is None or int(file.name[:8]) != read.next or part.features.shape[1:] != (width,):
                remove(file)
                continue
            read = part.read
            rows.append(part.rows)
            features.append(part.features)
        self._first = read.next
        if not read.next or read.next > patches:
            return None
        return Begun(
            replace(read, left_out=read.next - sum(map(len, rows))), np.concatenate(rows), np.concatenate(features)
        )

    def add(self, rows: Int64, features: Float32, read: ReadSoFar) -> None:
        """Take the features of some patches; write a part when there are enough."""
        self._rows.append(rows)
        self._features.append(features)
        if sum(map(len, self._rows)) < PART_PATCHES and time.monotonic() - self._since < PART_SECONDS:
            return
        with suppress(OSError):  # a full disk: the slide itself can then not be stored either, and says so
            self._write(read)
        self._first, self._rows, self._features, self._since = read.next, [], [], time.monotonic()

    def _write(self, read: ReadSoFar) -> None:
        packed = io.BytesIO()
        counts = np.array([read.next, read.unreadable, read.filled], np.int64)
        np.savez(packed, counts=counts, rows=np.concatenate(self._rows), features=np.concatenate(self._features))
        data = packed.getvalue()
        write_bytes(self._folder / f"{self._first:08d}-{digest_bytes(data)[:32]}.npz", data)

    def remove(self) -> None:
        """Remove the parts: the slide's features are stored."""
        remove(self._folder)


def _read(file: Path) -> Begun | None:
    """Read a part; None if its content is not what its name says."""
    try:
        data = file.read_bytes()
        if digest_bytes(data)[:32] != file.stem[9:]:
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as packed:
            after, unreadable, filled = packed["counts"].tolist()
            return Begun(ReadSoFar(after, unreadable, filled), packed["rows"], packed["features"])
    except (OSError, ValueError, KeyError):
        return None


def clear_parts(root: Path, settings: str, wanted: Iterable[str]) -> None:
    """Remove the parts made with some settings, but for those of wanted keys."""
    keep = {key[:32] for key in wanted}
    with suppress(FileNotFoundError):
        for folder in (root / FOLDER / settings[:16]).iterdir():
            if folder.name not in keep:
                remove(folder)
