"""Detect cheaply whether an archive has changed since it was loaded."""

from __future__ import annotations

import hashlib
import time
from contextlib import closing

from slideseek.archive.archive import Archive
from slideseek.archive.catalog import connect
from slideseek.config import CONFIG_NAME

LOOK_EVERY_SECONDS = 1.0

# Triggers in the catalogue count every change to slide records and codes. The query log is not included.
_PARTS = (
    "SELECT settings, value FROM generations ORDER BY settings",
    "SELECT settings, key FROM models ORDER BY settings",
    "SELECT name, signature FROM engines ORDER BY name",
)


class ArchiveWatcher:
    """Watch one archive. The catalogue is read only after a write, and at most once per second."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._db = connect(archive.catalog.path)
        self._looked = float("-inf")
        self._seen: tuple[int, int] | None = None
        self._stamp = ""

    def stamp(self) -> str:
        """Return a digest of the archive's state: equal digests mean equal slides, codes and configuration."""
        if time.monotonic() - self._looked < LOOK_EVERY_SECONDS:
            return self._stamp
        self._looked = time.monotonic()
        config = self._archive.root / CONFIG_NAME
        seen = int(self._db.execute("PRAGMA data_version").fetchone()[0]), config.stat().st_mtime_ns
        if seen != self._seen:
            self._seen = seen
            self._stamp = self._read(config.read_bytes())
        return self._stamp

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _read(self, config: bytes) -> str:
        name = hashlib.sha256(config)
        for part in _PARTS:
            with closing(self._db.execute(part)) as rows:
                for row in rows:
                    name.update(repr(tuple(row)).encode("utf-8", "surrogatepass"))
        return name.hexdigest()
