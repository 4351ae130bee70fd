"""Slide files outside the archive that may be queried with: those below folders named when the server starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from slideseek.archive.file_changes import identify
from slideseek.errors import SlideError
from slideseek.slides.discovery import find_slides
from slideseek.types import SlideRecord
from slideseek_apps.viewer.opaque_slide_keys import slide_key
from slideseek_apps.viewer.slide_directory import Entry, version_of

LOOK_EVERY_SECONDS = 10.0
MAX_FILES = 5000
"""Most files that are listed."""


class AllowedFiles:
    """The slide files below some folders, by opaque key. A link that leads out of its folder is not followed."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = tuple(folder.resolve() for folder in folders)
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._paths: dict[str, Path] = {}
        self._entries: dict[tuple[str, int, int], Entry] = {}

    def __bool__(self) -> bool:
        return bool(self._folders)

    def names(self) -> dict[str, str]:
        """Return the files by key, each named by its folder and its path below it."""
        paths = self._look()
        return {key: self._name(path) for key, path in paths.items()}

    def get(self, key: str) -> Entry | None:
        """Return the file with a key as it is now, or None if there is none."""
        path = self._look().get(key)
        if path is None or not path.is_file():
            return None
        stat = path.stat()
        known = key, stat.st_size, stat.st_mtime_ns
        with self._lock:
            if known not in self._entries:
                row = identify(SlideRecord(str(path), str(path)), path)
                self._entries[known] = Entry(key, row.record, row, version_of(row), file=True)
            return self._entries[known]

    def holds(self, path: str) -> bool:
        """Return whether a path is one of the files."""
        return any(str(known) == path for known in self._look().values())

    def name(self, path: str) -> str:
        """Return what people may read of a file: no folder above the one that is allowed."""
        return self._name(Path(path))

    def _name(self, path: Path) -> str:
        for folder in self._folders:
            if path.is_relative_to(folder):
                return str(Path(folder.name) / path.relative_to(folder))
        return path.name

    def _look(self) -> dict[str, Path]:
        with self._lock:
            if time.monotonic() - self._looked >= LOOK_EVERY_SECONDS:
                self._looked = time.monotonic()
                self._paths = {slide_key(f"file {path}"): path for path in self._find()}
            return self._paths

    def _find(self) -> list[Path]:
        found: list[Path] = []
        for folder in self._folders:
            try:
                inside = find_slides([folder])
            except SlideError:  # the folder has been removed
                continue
            found += [path for path in inside if path.resolve().is_relative_to(folder)]
        return found[:MAX_FILES]
