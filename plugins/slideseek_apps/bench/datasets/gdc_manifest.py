"""Read the manifest of a GDC download and check files against it."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slideseek.archive.manifest import Problem
from slideseek.errors import SlideseekError

COLUMNS = ("id", "filename", "md5", "size", "state")


@dataclass(frozen=True, slots=True)
class GdcFile:
    """One file of a manifest: its UUID, name, MD5 (hex) and size in bytes."""

    id: str
    filename: str
    md5: str
    size: int


def read_gdc_manifest(path: Path) -> list[GdcFile]:
    """Read a manifest, tab-separated `id filename md5 size state`; an invalid line is an error that names the line."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, delimiter="\t", restval="")
            missing = [name for name in COLUMNS[:4] if name not in (reader.fieldnames or ())]
            if missing:
                raise SlideseekError(
                    f"{path} is not a GDC manifest: no column {', '.join(missing)}",
                    f"download the manifest again: tab-separated {' '.join(COLUMNS)}",
                )
            return [_file(row, path, reader.line_num) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SlideseekError(f"the GDC manifest {path} cannot be read ({error})", "check the path") from error


def check_files(files: list[GdcFile], folder: Path) -> Iterator[Problem]:
    """Yield a problem for every file in the folder whose size or MD5 differs from the manifest.

    The GDC client keeps each file in a folder named by its UUID; a file that lies in `folder` itself is found too.
    Missing files are allowed: a download may be partial.
    """
    for file in files:
        here = next((p for p in (folder / file.id / file.filename, folder / file.filename) if p.is_file()), None)
        if here is None:
            continue
        size = here.stat().st_size
        if size != file.size:
            cause = f"it has {size:,} bytes, the manifest says {file.size:,}"
        else:
            with here.open("rb") as stream:
                found = hashlib.file_digest(stream, "md5").hexdigest()
            if found == file.md5.lower():
                continue
            cause = f"its MD5 is {found}, the manifest says {file.md5}"
        yield Problem(file.filename, cause, "download it again")


def _file(row: dict[str, str], path: Path, line: int) -> GdcFile:
    size = row["size"].strip()
    if not size.isdecimal() or not row["filename"]:
        raise SlideseekError(f"{path}, line {line}: no file name or no size ({size!r})", "download the manifest again")
    return GdcFile(row["id"].strip(), row["filename"].strip(), row["md5"].strip(), int(size))
