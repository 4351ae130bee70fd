"""SHA-256 of plain data, bytes and files: the key of stored results, and the check for damaged files."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import xxhash


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


def xxh3_file(path: Path) -> str:
    """Return the XXH3-128 of a file's content: it notices damage ten times as fast as SHA-256."""
    state = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(1 << 20):
            state.update(block)
    return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Seal:
    """A file as written: its SHA-256, its size in bytes, and its XXH3-128; "" in archives of an older slideseek."""

    sha256: str
    bytes: int
    xxh3: str = ""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Seal:
        """Return a seal from plain data; older ones also hold the time of the file's last change."""
        return cls(stored["sha256"], stored["bytes"], stored.get("xxh3", ""))


def seal_files(folder: Path) -> dict[str, Seal]:
    """Return the seal of every file below a folder, by its path relative to it."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {
        str(file.relative_to(folder)): Seal(sha256_file(file), file.stat().st_size, xxh3_file(file)) for file in files
    }


def broken_seal(folder: Path, seals: Mapping[str, Seal], thorough: bool = False) -> str:
    """Return the name of a file that no longer matches its seal; "" if all match.

    All files are read: a flipped bit changes neither size nor time. thorough: compare the SHA-256, not the XXH3.
    """
    for name, seal in seals.items():
        file = folder / name
        try:
            if file.stat().st_size != seal.bytes:
                return name
            quick = seal.xxh3 and not thorough
            if (xxh3_file(file) if quick else sha256_file(file)) != (seal.xxh3 if quick else seal.sha256):
                return name
        except OSError:
            return name
    return ""


def row_seal(*values: Any) -> int:
    """Return the checksum of the values of a row in a database, texts as bytes."""
    return crc32(repr(values).encode())


def is_whole(row: sqlite3.Row, columns: Iterable[str]) -> bool:
    """Return whether a row is as it was written: whether some of its columns match its `seal`."""
    if not set(columns) <= set(row.keys()):  # the definition of the table is damaged
        return False
    values = (row[name] for name in columns)
    plain = (value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value for value in values)
    return bool(row_seal(*plain) == row["seal"])
