"""Every write in an archive's folder, apart from SQLite's: a reader sees the old content or the new, never a part.

A disk that is full or fails is an `OSError` with the path. Components write in the folders that they are given here.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from slideseek.digests import digest_bytes

_TEMPORARY = re.compile(r"\..{1,100}\.tmp-\d+-[0-9a-f]{8}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; if the block succeeds, sync the file and rename it to `path`.

    On an error the temporary file is removed and `path` is unchanged. A temporary file left by a killed process is
    ignored by readers and removed by `clear_temporary`.
    """
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path)
        try:
            yield temporary
            sync(temporary)
            temporary.replace(path)
            sync(path.parent)
        finally:
            remove(temporary)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary empty folder; if the block succeeds, sync its files and rename it to `path`.

    Folders are named by their content. A folder that already exists at `path` is left over from an earlier,
    uncommitted attempt and is removed first.
    """
    with _naming(path):
        temporary = _temporary(path)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            for file in sorted(temporary.rglob("*")):
                sync(file)
            remove(path)
            move(temporary, path)
        finally:
            remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Replace a small text file atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Replace a file atomically by bytes."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def move(source: Path, target: Path) -> None:
    """Move a file or a folder to another name below the same archive, for good."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
    sync(target.parent)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that it holds; what is not there or cannot be removed stays."""
    with suppress(OSError):
        path.unlink()
        return
    shutil.rmtree(path, ignore_errors=True)


def sync(path: Path) -> None:
    """Wait until a file or the names in a folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name a file in the errors of a disk that do not."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def safe_name(slide_id: str) -> str:
    """Return a file name for a slide id: readable, valid everywhere, and different for different ids."""
    plain = quote(slide_id, safe=" !#$&'()+,;=@[]^_`{}~-.")
    reserved = plain.startswith(".") or plain.endswith((" ", "."))
    if reserved or len(plain) > 180:
        return f"{plain[:150].strip(' .')}~{digest_bytes(slide_id.encode())[:16]}"
    return plain


def clear_temporary(root: Path, folders: Sequence[str]) -> int:
    """Remove unfinished files of killed processes from `root` and some of its folders; return how many.

    Only names that slideseek generates are touched: everything else belongs to the user.
    """
    left = [path for path in root.iterdir() if _TEMPORARY.fullmatch(path.name)]
    for name in folders:
        left += _temporaries(root / name)
    for path in left:
        remove(path)
    return len(left)


def _temporaries(folder: Path) -> list[Path]:
    """Return the temporary files below a folder, without creating Path objects for 100,000 other files."""
    found: list[Path] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name[0] == "." and _TEMPORARY.fullmatch(entry.name):
                found.append(Path(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                found += _temporaries(Path(entry.path))
    return found


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
