"""Files of an index on disk: a header, files checked by SHA-256, and large memory-mapped arrays.

`header.json` lists every other file. It contains its own SHA-256 and those of the files that are read whole. The large
arrays are memory-mapped, so only their exact size, dtype and shape are checked. Any mismatch is a `DamagedError` that
names the file: an index is derived data, so the fix is always to rebuild it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.digests import digest_bytes, sha256_file
from slideseek.errors import DamagedError

HEADER = "header.json"
FORMAT = "slideseek-index"
VERSION = 1


def damaged(path: Path, what: str) -> DamagedError:
    """Return the error for a file that cannot be used."""
    return DamagedError(f"index file {path}: {what}", "rebuild the index from the stored codes")


def write_header(folder: Path, index: str, content: Mapping[str, Any], checked_files: Sequence[str]) -> None:
    """Write the header as the last file: a folder without one is incomplete."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "index": index,
        **content,
        "sha256": {name: sha256_file(folder / name) for name in checked_files},
    }
    header["header_sha256"] = _header_sha256(header)
    with (folder / HEADER).open("w", encoding="utf-8") as stream:
        json.dump(header, stream, indent=1, sort_keys=True)
        _sync(stream.fileno(), stream)


def read_header(folder: Path, index: str) -> dict[str, Any]:
    """Return the header of the folder, which must have been written by the index of this name."""
    path = folder / HEADER
    try:
        header = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise damaged(path, "missing, so the index in the folder is incomplete") from None
    except (ValueError, OSError) as error:
        raise damaged(path, f"not readable as JSON ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise damaged(path, "not the header of a slideseek index")
    if header.get("version") != VERSION:
        raise damaged(path, f"format version {header.get('version')!r}, this release reads version {VERSION}")
    if header.pop("header_sha256", None) != _header_sha256(header):
        raise damaged(path, "content does not match its own SHA-256")
    if header["index"] != index:
        raise damaged(path, f"written by index {header['index']!r}, not {index!r}")
    return header


def write_bytes(path: Path, content: bytes) -> None:
    """Write and sync a small file."""
    with path.open("wb") as stream:
        stream.write(content)
        _sync(stream.fileno(), stream)


def checked(folder: Path, name: str, header: Mapping[str, Any]) -> Path:
    """Return the path of a file after checking its SHA-256."""
    path = folder / name
    try:
        found = sha256_file(path)
    except OSError as error:
        raise damaged(path, error.strerror or "cannot be read") from error
    if header["sha256"].get(name) != found:
        raise damaged(path, "content does not match the SHA-256 in the header")
    return path


@dataclass(frozen=True)
class MappedFile:
    """A memory-mapped file. identity: device and inode, since another file may have replaced it at its path."""

    path: Path
    identity: tuple[int, int]

    @classmethod
    def at(cls, path: Path) -> MappedFile:
        """Identify the file that is now at `path`."""
        return cls(path, _identity(path))

    def linked(self, target: Path) -> bool:
        """Hard-link the file to a second name, and return whether that worked.

        Array files are never written in place, so sharing one between two saved indexes is safe.
        """
        try:
            if _identity(self.path) != self.identity:
                return False
            os.link(self.path, target)
        except OSError:  # the file is gone, or the file system has no hard links
            return False
        return True


def write_array(path: Path, array: NDArray[Any], source: MappedFile | None = None) -> None:
    """Write and sync an array as .npy, or hard-link the file it is mapped from."""
    if source is not None and source.linked(path):
        return
    with path.open("wb") as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)
        _sync(stream.fileno(), stream)


def map_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Map an array read-only after checking dtype, shape and size."""
    empty = 0 in shape  # nothing to map
    try:
        mapped = np.load(path, mmap_mode=None if empty else "r", allow_pickle=False)
        size = path.stat().st_size
    except FileNotFoundError:
        raise damaged(path, "missing") from None
    except (ValueError, EOFError, OSError) as error:
        raise damaged(path, f"not a complete .npy array ({error})") from error
    if mapped.dtype != dtype or mapped.shape != shape:
        raise damaged(path, f"contains {mapped.dtype} {mapped.shape}, the header states {dtype} {shape}")
    if not empty and size != mapped.offset + mapped.nbytes:
        raise damaged(path, f"{size} bytes, {mapped.offset + mapped.nbytes} expected")
    return np.asarray(mapped)


def sync(path: Path) -> None:
    """Sync a file written by a library to disk."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _header_sha256(header: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a header without its own.

    Not `slideseek.digests.digest`, which does not escape non-ASCII letters: existing headers were written with them
    escaped, and a header with such a letter in a site name would no longer match.
    """
    return digest_bytes(json.dumps(header, sort_keys=True, separators=(",", ":")).encode())


def _sync(descriptor: int, stream: Any) -> None:
    stream.flush()
    os.fsync(descriptor)
