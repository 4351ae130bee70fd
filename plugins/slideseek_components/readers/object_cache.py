"""A bounded cache on disk of the parts of remote objects that were read.

Every version of an object has a folder with two files: `data`, as large as the object and empty where nothing was read
(a sparse file), and `digests`, the SHA-256 of each block that is there. A block is checked whenever it is read. Blocks
that arrived stay when a connection is cut off, so the next attempt goes on from there. Before a block is written, the
objects not used for longest make room, but never one that some process has open. Without room a block is passed on and
not kept: the cache never exceeds its bound. Any number of processes may share a cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import RawIOBase
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from slideseek.errors import SlideError, UsageError
from slideseek_components.readers.object_store import StoredObject, bare, read_range

FOLDER_VARIABLE, LIMIT_VARIABLE = "SLIDESEEK_CACHE", "SLIDESEEK_CACHE_GB"
DEFAULT_GB = 20.0
BLOCK = 2**18
"""Bytes of a block: a few tiles of a slide."""

AT_ONCE = 16
"""Most blocks of one request, and what is lost when it is cut off."""

_RECENT = 8
_PAGE = 4096
_DIGEST = 32


@dataclass(frozen=True)
class ObjectCache:
    """A cache in a folder. limit: bytes on disk that it may take."""

    folder: Path
    limit: int

    @classmethod
    def standard(cls) -> ObjectCache:
        """Return the user's cache: SLIDESEEK_CACHE is its folder, SLIDESEEK_CACHE_GB its bound (20)."""
        text = os.environ.get(LIMIT_VARIABLE, str(DEFAULT_GB))
        try:
            limit = int(float(text) * 1e9)
        except (ValueError, OverflowError):
            limit = -1
        if limit < 0:
            raise UsageError(f"{LIMIT_VARIABLE} is {text!r}", "set it to a number of gigabytes, such as 20")
        folder = os.environ.get(FOLDER_VARIABLE)
        return cls(Path(folder) if folder else user_cache_path("slideseek") / "objects", limit)

    def open(self, one: StoredObject) -> CachedObject:
        """Open an object; close it afterwards, since an open one cannot make room for others."""
        key = hashlib.sha256(f"{one.url}\n{one.size}\n{one.version}".encode()).hexdigest()[:32]
        folder = self.folder / key
        name = re.sub(r"[^\w.-]", "_", one.url.partition("?")[0].rpartition("/")[2])[-100:] or "data"
        blocks = -(-one.size // BLOCK)
        overhead = _pages(blocks * _DIGEST) + 3 * _PAGE
        with self._alone():
            room = folder.is_dir() or self._reserve(overhead)
            if not room:
                return CachedObject(self, one, None, None, None)
            folder.mkdir(parents=True, exist_ok=True)
            digests = os.open(folder / "digests", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(digests, fcntl.LOCK_SH)
            os.ftruncate(digests, blocks * _DIGEST)
            os.utime(digests)
        return CachedObject(self, one, folder / name, os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600), digests)

    def keep(self, data: int, block: bytes, start: int, digests: int, number: int) -> None:
        """Write a block and its digest to open files if there is room, removing what was not used for longest."""
        with self._alone():  # until it is written: room that is only promised would be given away twice
            if self._reserve(_pages(len(block))):
                os.pwrite(data, block, start)
                os.pwrite(digests, hashlib.sha256(block).digest(), number * _DIGEST)

    def used(self) -> int:
        """Return the bytes on disk that the cache takes."""
        return sum(_bytes_of(folder) for folder in self._folders())

    def _reserve(self, size: int) -> bool:
        counter = self.folder / "used"
        try:
            used = int(counter.read_text())
        except (OSError, ValueError):
            used = self.used()
        if used + size > self.limit:
            used = self.used()  # exact: a block that was written twice counts once
            for folder in sorted(self._folders(), key=_last_use):
                if used + size <= self.limit:
                    break
                used -= _remove(folder)
        fits = used + size <= self.limit
        counter.write_text(str(used + size if fits else used))
        return fits

    def _folders(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.is_dir()] if self.folder.is_dir() else []

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the whole cache: for the count of bytes, and for opening and removing objects."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            cause = f"the cache {self.folder} cannot be written ({error.strerror})"
            raise SlideError(cause, f"set {FOLDER_VARIABLE} to another folder") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


@dataclass
class CachedObject:
    """An open object: reads go to the cache first. path, data, digests: None if the cache has no room for it."""

    cache: ObjectCache
    one: StoredObject
    path: Path | None
    data: int | None
    digests: int | None
    fetched: int = 0
    _recent: OrderedDict[int, bytes] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, start: int, size: int) -> bytes:
        """Return bytes from `start`, fewer at the end of the object."""
        end = min(start + size, self.one.size)
        if start >= end:
            return b""
        first, last = start // BLOCK, (end - 1) // BLOCK
        with self._lock:
            joined = b"".join(self._blocks(first, last + 1))
        return joined[start - first * BLOCK : end - first * BLOCK]

    def whole(self) -> Path:
        """Fetch what is still missing, and return the file."""
        if self.path is None or self.one.size > self.cache.limit:
            raise self._too_large()
        self._recent.clear()
        count = -(-self.one.size // BLOCK)
        for first in range(0, count, AT_ONCE):
            with self._lock:
                for number, _ in enumerate(self._blocks(first, min(first + AT_ONCE, count)), first):
                    if not self._digest(number):
                        raise self._too_large()
        return self.path

    def close(self) -> None:
        """Close the files; reading afterwards is an error."""
        for number in (self.data, self.digests):
            if number is not None:
                os.close(number)
        self.data = self.digests = None

    def _blocks(self, first: int, last: int) -> Iterator[bytes]:
        """Yield blocks from first up to last; those missing in a row are fetched together."""
        number = first
        while number < last:
            kept = self._kept(number)
            if kept is not None:
                yield kept
                number += 1
                continue
            end = number + 1
            while end < min(last, number + AT_ONCE) and self._kept(end) is None:
                end += 1
            start, stop = number * BLOCK, min(end * BLOCK, self.one.size)
            got = read_range(self.one, start, stop)
            self.fetched += len(got)
            for at in range(number, end):
                block = got[(at - number) * BLOCK : (at - number + 1) * BLOCK]
                self._keep(at, block)
                yield block
            number = end

    def _kept(self, number: int) -> bytes | None:
        """Return a block of the cache if it is there and sound."""
        if number in self._recent:
            self._recent.move_to_end(number)
            return self._recent[number]
        wanted = self._digest(number)
        if not wanted or self.data is None:
            return None
        block = os.pread(self.data, min(BLOCK, self.one.size - number * BLOCK), number * BLOCK)
        if hashlib.sha256(block).digest() != wanted:
            return None
        self._remember(number, block)
        return block

    def _keep(self, number: int, block: bytes) -> None:
        self._remember(number, block)
        if self.data is not None and self.digests is not None:
            self.cache.keep(self.data, block, number * BLOCK, self.digests, number)

    def _remember(self, number: int, block: bytes) -> None:
        self._recent[number] = block
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)

    def _digest(self, number: int) -> bytes:
        """Return the SHA-256 of a block of the cache, b"" if it is not there."""
        found = os.pread(self.digests, _DIGEST, number * _DIGEST) if self.digests is not None else b""
        return found if any(found) else b""

    def _too_large(self) -> SlideError:
        return SlideError(
            f"{bare(self.one.url)} of {self.one.size / 1e9:.3g} GB does not fit into the cache of"
            f" {self.cache.limit / 1e9:.3g} GB beside what is in use",
            f"set {LIMIT_VARIABLE} to more gigabytes, or {FOLDER_VARIABLE} to a folder on a larger disk",
        )


class CachedFile(RawIOBase):
    """A cached object as a binary file, for libraries that read files."""

    def __init__(self, cached: CachedObject) -> None:
        self._cached = cached
        self._at = 0
        self.name = cached.one.url

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return where the next read starts."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place in the file."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._cached.one.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return the number of bytes, 0 at the end."""
        got = self._cached.read(self._at, len(buffer))
        buffer[: len(got)] = got
        self._at += len(got)
        return len(got)

    def close(self) -> None:
        """Close the object too."""
        if not self.closed:
            self._cached.close()
        super().close()


def _pages(size: int) -> int:
    """Return the bytes on disk of some bytes of a file."""
    return -(-size // _PAGE) * _PAGE


def _bytes_of(folder: Path) -> int:
    """Return the bytes on disk of an object: of its blocks, or what the file system says if that is more."""
    digests = (folder / "digests").read_bytes() if (folder / "digests").is_file() else b""
    there = [at // _DIGEST * BLOCK for at in range(0, len(digests), _DIGEST) if any(digests[at : at + _DIGEST])]
    files = [path.stat() for path in folder.iterdir()]
    end = max((file.st_size for file in files), default=0)  # of the data
    blocks = sum(_pages(min(BLOCK, max(0, end - start))) for start in there) + _pages(len(digests))
    return max(blocks, sum(file.st_blocks * 512 for file in files)) + 2 * _PAGE


def _last_use(folder: Path) -> float:
    try:
        return (folder / "digests").stat().st_mtime
    except OSError:
        return 0.0


def _remove(folder: Path) -> int:
    """Remove an object that no process has open; return the bytes that are free again."""
    try:
        with (folder / "digests").open("rb") as digests:
            fcntl.flock(digests, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = _bytes_of(folder)
            shutil.rmtree(folder)
            return size
    except BlockingIOError:
        return 0
    except FileNotFoundError:  # a removal that was cut off
        size = _bytes_of(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return size
