"""Seals of files: what they were when they were written, to see cheaply that nobody has touched them since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slideseek.digests import sha256_file


@dataclass(frozen=True, slots=True)
class Seal:
    """A file as it was written: its SHA-256, its size, and the time of its last change in ns."""

    sha256: str
    bytes: int
    mtime_ns: int


def seal_files(folder: Path) -> dict[str, Seal]:
    """Return the seal of every file below a folder, by its path relative to it."""
    seals = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            stat = file.stat()
            seals[str(file.relative_to(folder))] = Seal(sha256_file(file), stat.st_size, stat.st_mtime_ns)
    return seals


def broken_seal(folder: Path, seals: Mapping[str, Seal], thorough: bool = False) -> str:
    """Return the name of a file that is not what was sealed, "" when all are.

    A file of the sealed size and time counts as untouched and is not read, unless `thorough`.
    """
    for name, seal in seals.items():
        file = folder / name
        try:
            stat = file.stat()
        except OSError:
            return name
        if stat.st_size != seal.bytes:
            return name
        if (thorough or stat.st_mtime_ns != seal.mtime_ns) and sha256_file(file) != seal.sha256:
            return name
    return ""
