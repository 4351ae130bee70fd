"""An archive: a folder with a configuration, a catalogue, features, models and derived indexes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from slideseek.archive.catalog import Catalog
from slideseek.archive.files import clear_temporary, remove, write_text
from slideseek.archive.payloads import load_bag
from slideseek.config import CONFIG_NAME, Config, default_config, parse_config, read_config
from slideseek.errors import BusyError, DamagedError, UsageError
from slideseek.plugins import COMPONENT_KINDS, Kind, Registry, load_registry
from slideseek.slides.remote_path import RemotePath
from slideseek.types import Bag, SlideRecord, is_url

CATALOG_NAME = "catalog.sqlite"
LOCK_NAME = ".lock"
CONFIG_KEPT = ""
"""In place of the name of an engine: the configuration as of the last build."""
FOLDERS = ("features", "parts", "models", "training", "index", "runs")
"""What slideseek itself writes in an archive's folder; slides and reports there belong to the user."""


def absolute(path: Path) -> Path:
    """Return an absolute path without `..`, or the URL; links are kept, since the user chose that name for the file."""
    # Path.absolute keeps `..`, Path.resolve follows links.
    return path if isinstance(path, RemotePath) else Path(os.path.abspath(path))  # noqa: PTH100


def slide_file(root: Path, path: str) -> Path:
    """Return the file or the URL of a slide. root: the archive's folder. path: of its record."""
    return RemotePath(path) if is_url(path) else root / path


class Archive:
    """Open an archive folder; close it, or use it as a context manager.

    still: only read, while nobody writes, without the catalogue's log: many machines can, on a file system they share.
    """

    def __init__(self, root: Path, still: bool = False) -> None:
        self.root = root.resolve()
        if not (self.root / CONFIG_NAME).is_file():
            raise UsageError(
                f"{root} is not an archive (no {CONFIG_NAME})", f"check the path, or run 'slideseek init {root}'"
            )
        self.catalog = Catalog(self.root / CATALOG_NAME, still=still)
        self.wait: Callable[[str], None] | None = None
        """Takes a message when a writer waits for another one; without it, a second writer is refused."""

    @classmethod
    def create(cls, root: Path, config: str | None = None) -> Archive:
        """Create an archive; an existing one is an error, an incomplete one is completed."""
        if (root / CONFIG_NAME).exists() and (root / CATALOG_NAME).exists():
            raise UsageError(f"{root} is already an archive", f"edit {root / CONFIG_NAME}, or choose another folder")
        text = default_config() if config is None else config
        parse_config(text)
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot create the folder {root}: {error.strerror}") from error
        Catalog(root / CATALOG_NAME, create=True).close()  # also what an interrupted attempt has left
        if not (root / CONFIG_NAME).exists():  # last: its presence is what makes the folder an archive
            write_text(root / CONFIG_NAME, text)
        return cls(root)

    @classmethod
    def locate(cls, start: Path, still: bool = False) -> Archive:
        """Open the archive at `start` or in the nearest folder above it."""
        for folder in (start.resolve(), *start.resolve().parents):
            if (folder / CONFIG_NAME).is_file():
                return cls(folder, still)
        raise UsageError(
            f"no archive here ({start} and the folders above it have no {CONFIG_NAME})",
            "pass -a ARCHIVE, or create one with 'slideseek init DIR'",
        )

    @property
    def config(self) -> Config:
        """The configuration as it is on disk now."""
        return read_config(self.root / CONFIG_NAME)

    def registry(self, kinds: Sequence[Kind] = COMPONENT_KINDS) -> Registry:
        """Return the components that the installed plugins and the archive's own plugin files provide."""
        names = self.config.plugins
        if not names:
            return load_registry(kinds=kinds)
        from slideseek.plugin_files import plugin_files

        return load_registry(kinds=kinds, files=plugin_files(self.root, names))

    def slide_path(self, record: SlideRecord) -> Path:
        """Return the path of a slide's file, or its URL; slides inside the archive's folder move with it."""
        return slide_file(self.root, record.path)

    def portable_path(self, path: Path) -> str:
        """Return the path to store for a slide: relative inside the archive's folder, otherwise absolute."""
        full = absolute(path)
        return str(full.relative_to(self.root)) if full.is_relative_to(self.root) else str(full)

    def bag(self, key: str, record: SlideRecord, trusted: bool = False) -> Bag:
        """Read the features stored under a key as the bag of one slide; its SHA-256 is checked unless trusted."""
        payload = self.catalog.payload(key)
        if payload is None:
            raise DamagedError(f"the features of slide {record.id!r} are missing", "run 'slideseek build'")
        return load_bag(self.root, payload, record.id, record.site, trusted)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the archive's write lock; a second writer waits if it is to, else it fails immediately with an error."""
        lock = FileLock(self.root / LOCK_NAME)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            busy = f"another slideseek is writing to {self.root}"
            if self.wait is None:
                raise BusyError(busy, "wait until it is done, then run this again; or pass --wait") from error
            self.wait(f"{busy}: waiting until it is done")
            lock.acquire()
        try:
            clear_temporary(self.root, FOLDERS)
            self.delete_discarded()
            yield
        finally:
            lock.release()

    def delete_discarded(self) -> None:
        """Delete the files whose records are gone: a file without a record is harmless, a record without a file not."""
        if files := self.catalog.discarded():
            for file in files:
                remove(self.root / file)
            self.catalog.forget_discarded()

    def close(self) -> None:
        """Close the catalogue."""
        self.catalog.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
