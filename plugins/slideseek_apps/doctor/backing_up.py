"""Copy one state of an archive: the catalogue by SQLite's backup, then every file that this catalogue names.

A writer may replace a file meanwhile. A copy that does not match its checksum is therefore followed by another
catalogue, until one is found with all its files. The catalogue comes last: until then the former backup stays whole.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from slideseek.archive.archive import CATALOG_NAME, Archive
from slideseek.archive.catalog import inside
from slideseek.archive.files import move, remove, replacing
from slideseek.config import CONFIG_NAME
from slideseek.digests import sha256_file
from slideseek.errors import SlideseekError, UsageError

TRIES = 20
"""Catalogues to try before a backup is given up: each time, a file was replaced while it was copied."""

BESIDE = (CONFIG_NAME, "slide-checksums.json", "pseudonyms.key")


@dataclass
class BackedUp:
    """What was copied, and what an earlier backup had already."""

    copied: int = 0
    kept: int = 0
    bytes: int = 0
    slides: int = 0


def back_up(archive: Archive, target: Path) -> BackedUp:
    """Copy the archive to a folder: a new one, an empty one, or an earlier backup."""
    if target.resolve().is_relative_to(archive.root):
        raise UsageError(f"{target} is inside the archive", "choose a folder elsewhere, best on another disk")
    if target.exists() and any(target.iterdir()) and not (target / CATALOG_NAME).is_file():
        raise UsageError(f"{target} holds something else", "choose a new folder, or an earlier backup")
    target.mkdir(parents=True, exist_ok=True)
    done, state = BackedUp(), target / "catalog-new.sqlite"
    for _ in range(TRIES):
        remove(state)
        with closing(sqlite3.connect(archive.catalog.path)) as source, closing(sqlite3.connect(state)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            named = _named(copy)
            done.slides = int(copy.execute("SELECT count(*) FROM slides").fetchone()[0])
        missing = [name for name, sha256 in named.items() if not _copy(archive.root, target, name, sha256, done)]
        if not missing:
            break
    else:
        remove(state)
        raise SlideseekError(
            f"{missing[0]} does not match its checksum in the catalogue ({len(missing)} file(s))",
            "run 'slideseek verify'; if a build is running, try again when it is done",
        )
    for name in (*BESIDE, *archive.config.plugins):
        if (archive.root / name).is_file():
            with replacing(target / name) as temporary:
                shutil.copy2(archive.root / name, temporary)
    for suffix in ("-wal", "-shm"):
        remove(target / f"{CATALOG_NAME}{suffix}")
    move(state, target / CATALOG_NAME)
    _sweep(target, set(named))
    return done


def _named(db: sqlite3.Connection) -> dict[str, str]:
    """Return the SHA-256 of every file that a catalogue names, by its path below the archive's folder."""
    named = {inside(file): sha256 for file, sha256 in db.execute("SELECT file, sha256 FROM payloads WHERE file <> ''")}
    for folder, files in db.execute("SELECT folder, files FROM models"):
        named |= {inside(f"{folder}/{name}"): sha256 for name, sha256 in json.loads(files).items()}
    for folder, files in db.execute("SELECT folder, files FROM indexes"):
        named |= {inside(f"{folder}/{name}"): seal["sha256"] for name, seal in json.loads(files).items()}
    return named


def _copy(root: Path, target: Path, name: str, sha256: str, done: BackedUp) -> bool:
    """Copy a file unless the backup has it; return whether it is what the catalogue says."""
    there = target / name
    if there.is_file() and sha256_file(there) == sha256:
        done.kept += 1
        return True
    try:
        with replacing(there) as temporary:
            shutil.copy2(root / name, temporary)
            if sha256_file(temporary) != sha256:
                return False
    except FileNotFoundError:
        return False
    done.copied += 1
    done.bytes += there.stat().st_size
    return True


def _sweep(target: Path, wanted: set[str]) -> None:
    """Remove files of earlier backups that the catalogue no longer names."""
    for folder in ("features", "models", "index"):
        for place, _, names in os.walk(target / folder):
            for name in names:
                file = Path(place) / name
                if str(file.relative_to(target)) not in wanted:
                    remove(file)
