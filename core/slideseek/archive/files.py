"""Write files atomically: a reader sees the old content or the new, never a part."""

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
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary empty folder; if the block succeeds, sync its files and rename it to `path`.

    Folders are named by their content. A folder that already exists at `path` is left over from an earlier,
    uncommitted attempt and is removed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
        if path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
        _sync_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Replace a small text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
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


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
