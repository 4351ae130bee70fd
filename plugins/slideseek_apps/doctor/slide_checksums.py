"""Slide files read from beginning to end, and compared with checksums that are kept in the archive.

The fingerprint of a slide of up to 64 MiB covers all of it. A larger one is fingerprinted by samples when it is added;
the SHA-256 of its files is kept here when they are first read whole, under the fingerprint: no id and no path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.files import write_text
from slideseek.digests import digest, sha256_file
from slideseek.errors import SlideseekError
from slideseek.slides.content_fingerprint import fingerprint
from slideseek.slides.file_formats import slide_files
from slideseek.slides.remote_path import RemotePath
from slideseek_apps.doctor.finding import Finding, counted

NAME = "slide-checksums.json"
SAMPLED = "sampled-"


def look_at_slides(root: Path) -> Iterator[Finding]:
    """Yield which slide files are not as they were, and how many were read; new checksums are kept."""
    with Archive(root) as archive:
        known, kept, read, first = _known(root), dict[str, str](), 0, 0
        for row in archive.catalog.slides:
            path = archive.slide_path(row.record)
            if not row.record.path or isinstance(path, RemotePath) or not path.exists():
                if before := known.get(row.fingerprint):
                    kept[row.fingerprint] = before
                continue
            read += 1
            try:
                same = fingerprint(path) == row.fingerprint
                if same and row.fingerprint.startswith(SAMPLED):
                    now = digest([[file.name, sha256_file(file)] for file in slide_files(path)])
                    first += row.fingerprint not in known
                    kept[row.fingerprint] = known.get(row.fingerprint, now)
                    same = kept[row.fingerprint] == now
            except (SlideseekError, OSError) as error:
                yield Finding("slide files", row.id, "fail", str(error), "check the disk or the network share")
                continue
            if not same:
                cause = f"{path} does not hold what it held when it was added"
                yield Finding(
                    "slide files", row.id, "fail", cause, "restore the file, or run 'slideseek build --verify'"
                )
        if kept != known:
            write_text(root / NAME, json.dumps({"sha256": kept, "check": digest(kept)}, indent=1))
    new = f", {counted(first, 'checksum')} kept for the first time" if first else ""
    yield Finding("slide files", "read whole", "ok", f"{counted(read, 'slide')}{new}")


def _known(root: Path) -> dict[str, str]:
    """Return the checksums that are kept, by fingerprint; none if their file is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        stored = json.loads((root / NAME).read_text(encoding="utf-8"))
        if digest(stored["sha256"]) == stored["check"]:
            return {str(name): str(value) for name, value in stored["sha256"].items()}
    return {}
