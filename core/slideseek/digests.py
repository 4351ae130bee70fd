"""SHA-256 of plain data, bytes and files: the key of stored results, and the check for damaged files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """Write plain data as canonical JSON: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Return the SHA-256 (64 hex digits) of plain data: strings, numbers, lists, dictionaries."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_bytes(*parts: bytes | memoryview) -> str:
    """Return the SHA-256 (64 hex digits) of concatenated bytes."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 (64 hex digits) of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its path relative to it."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file.relative_to(folder)): sha256_file(file) for file in files}


@dataclass(frozen=True, slots=True)
class Seal:
    """A file as written: its SHA-256, its size in bytes, and the time of its last change in ns."""

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
    """Return the name of a file that no longer matches its seal; "" if all match.

    A file with the sealed size and time counts as unchanged and is not read, unless `thorough`.
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
