"""The layout of a TIFF file, to detect a truncated one.

On a truncated file, libraries fail with an obscure message or, worse, open only the remaining pages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from slideseek.errors import SlideError
from slideseek.slides.slide_errors import cannot_read
from slideseek.types import Int64

MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""First bytes of a TIFF and a BigTIFF in both byte orders."""

_PIXELS = ((273, 279), (324, 325))
"""Tags of the offsets and byte counts of strips, and of tiles."""

_SUB_DIRECTORIES = 330
_PRIVATE = 32_768
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_INTEGERS = {3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}
_MAX_DIRECTORIES = 10_000


class _Format(NamedTuple):
    """Number formats of a TIFF: byte order, number of entries, head of an entry, offset."""

    order: str
    entries: str
    head: str
    offset: str

    @property
    def inline(self) -> int:
        """Bytes of a value stored in its entry."""
        return struct.calcsize(self.offset)


class _Entry(NamedTuple):
    """One tag: type, number of values, and where they start in the file."""

    kind: int
    values: int
    at: int

    @property
    def end(self) -> int:
        return self.at + self.values * _SIZES.get(self.kind, 0)


def check_complete(path: Path, vendor: str | None) -> None:
    """Raise `SlideError` for a TIFF that was cut short. vendor: the name OpenSlide has for its format, if any."""
    # Hamamatsu writes 64-bit offsets into 32 bits: the standard layout check does not work for such a file.
    if vendor == "hamamatsu":
        return
    try:
        missing = missing_bytes(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    if missing:
        cause = f"{path.name} is truncated or damaged: it refers to {missing:,} bytes beyond its end"
        raise SlideError(cause, "copy the file again")


def missing_bytes(path: Path) -> int:
    """Return by how many bytes the directories, tags and pixels of a TIFF extend beyond its end: 0 if complete."""
    size = path.stat().st_size
    with path.open("rb") as file:
        return max(0, max(_ends(file, size), default=0) - size)


def _ends(file: BinaryIO, size: int) -> Iterator[int]:
    """Yield the end of everything the file refers to; directories beyond the end of the file are not followed."""
    order = "<" if file.read(2) == b"II" else ">"
    if file.read(2) in (b"+\0", b"\0+"):
        form = _Format(order, f"{order}Q", f"{order}HHQ", f"{order}Q")
        file.seek(8)
    else:
        form = _Format(order, f"{order}H", f"{order}HHI", f"{order}I")
    yield file.tell() + form.inline
    pending, seen = [_number(file, form.offset)], set[int]()
    while pending and len(seen) < _MAX_DIRECTORIES:
        start = pending.pop()
        if start == 0 or start in seen:
            continue
        seen.add(start)
        first = start + struct.calcsize(form.entries)
        yield first
        if first > size:
            continue
        file.seek(start)
        entries = _number(file, form.entries)
        length = entries * (struct.calcsize(form.head) + form.inline)
        yield first + length + form.inline
        if first + length + form.inline > size:
            continue
        tags = dict(_tags(file.read(length), first, form))
        pending.append(_number(file, form.offset))
        if _SUB_DIRECTORIES in tags:
            pending += _values(file, tags[_SUB_DIRECTORIES], size, form).tolist()
        yield from (entry.end for tag, entry in tags.items() if tag < _PRIVATE)
        yield from _pixel_ends(file, tags, size, form)


def _pixel_ends(file: BinaryIO, tags: Mapping[int, _Entry], size: int, form: _Format) -> Iterator[int]:
    """Yield the end of the pixels of one page."""
    for offsets, counts in _PIXELS:
        if offsets in tags and counts in tags:
            starts, lengths = (_values(file, tags[tag], size, form) for tag in (offsets, counts))
            # A tile of zero bytes is empty glass: ignore its offset.
            if starts.size == lengths.size and lengths.any():
                yield int((starts + lengths)[lengths > 0].max())


def _tags(block: bytes, first: int, form: _Format) -> Iterator[tuple[int, _Entry]]:
    """Yield the entries of a directory; the first one is at offset `first` of the file."""
    head = struct.calcsize(form.head)
    for place in range(0, len(block), head + form.inline):
        tag, kind, values = struct.unpack_from(form.head, block, place)
        inline = values * _SIZES.get(kind, 0) <= form.inline
        at = first + place + head if inline else struct.unpack_from(form.offset, block, place + head)[0]
        yield tag, _Entry(kind, values, at)


def _values(file: BinaryIO, entry: _Entry, size: int, form: _Format) -> Int64:
    """Return the integers of a tag; none if they are of another type or beyond the end of the file."""
    if entry.kind not in _INTEGERS or entry.end > size:
        return np.zeros(0, np.int64)
    file.seek(entry.at)
    raw = np.frombuffer(file.read(entry.end - entry.at), np.dtype(form.order + _INTEGERS[entry.kind]))
    return raw.astype(np.int64)


def _number(file: BinaryIO, kind: str) -> int:
    """Read one number; 0, which refers to nothing, beyond the end of the file."""
    data = file.read(struct.calcsize(kind))
    return int(struct.unpack(kind, data)[0]) if len(data) == struct.calcsize(kind) else 0
