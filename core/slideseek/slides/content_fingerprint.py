"""The fingerprint of a slide's content, independent of its path."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from slideseek.slides.file_formats import slide_files
from slideseek.slides.remote_path import RemotePath
from slideseek.slides.remote_slides import look_up
from slideseek.slides.slide_errors import cannot_read, first_bytes

WHOLE_BYTES = 64 * 2**20
"""Content up to this size is hashed whole; reading a larger slide whole could take longer than indexing it."""

BLOCK_BYTES = 256 * 2**10
BLOCKS = 64


def fingerprint(path: Path) -> str:
    """Return "sha256:<hex>" of the content, or "sampled-sha256:<hex>" of samples of it when it is large.

    A sample is the size and 64 evenly spaced blocks of 256 KiB, the first and the last of the file among them. A slide
    of one file of up to 64 MiB has exactly the SHA-256 of that file. All files of a MIRAX slide, a Hamamatsu VMS slide
    or a DICOM series belong to the content, whichever file of the series is named. A remote slide is not read: see
    `look_up`. Raises `SlideError` if it cannot be read.
    """
    if isinstance(path, RemotePath):
        return look_up(path)[2]
    first_bytes(path)
    try:
        parts = slide_files(path)
        sizes = [part.stat().st_size for part in parts]
        sampled = sum(sizes) > WHOLE_BYTES
        digest = hashlib.sha256()
        for part, size in zip(parts, sizes):
            # With the sizes, a moved boundary between two files changes the digest.
            if sampled or len(parts) > 1:
                digest.update(f"{size}\n".encode())
            for block in _blocks(part, size, sampled):
                digest.update(block)
    except OSError as error:
        raise cannot_read(path, error) from error
    return f"{'sampled-' if sampled else ''}sha256:{digest.hexdigest()}"


def _blocks(path: Path, size: int, sampled: bool) -> Iterator[bytes]:
    """Yield the whole content, or the sampled blocks of it."""
    with path.open("rb") as file:
        if not sampled or size <= BLOCKS * BLOCK_BYTES:
            while block := file.read(2**20):
                yield block
            return
        for number in range(BLOCKS):
            file.seek((size - BLOCK_BYTES) * number // (BLOCKS - 1))
            yield file.read(BLOCK_BYTES)
