"""The layout of a TIFF file: to detect a truncated one, and where the tiles of its pages lie.

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


class Page(NamedTuple):
    """A page of tiles. size, tile: (w, h) in pixels. tables: of JPEG, shared by its tiles. Numbers as in the tags."""

    size: tuple[int, int]
    tile: tuple[int, int]
    offsets: Int64
    counts: Int64
    compression: int
    photometric: int
    samples: int
    planar: int
    tables: bytes

    @property
    def across(self) -> int:
        """Tiles per row."""
        return -(-self.size[0] // self.tile[0])

    @property
    def down(self) -> int:
        """Rows of tiles."""
        return -(-self.size[1] // self.tile[1])


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


def read_pages(file: BinaryIO) -> Iterator[Page]:
    """Yield the tiled pages of a TIFF, without those in sub-directories."""
    size = file.seek(0, 2)
    file.seek(0)
    form = _format(file)
    pending, seen = _number(file, form.offset), set[int]()
    while pending and pending not in seen and len(seen) < _MAX_DIRECTORIES:
        seen.add(pending)
        tags, pending = _directory(file, pending, size, form)

        def first(tag: int, otherwise: int, tags: Mapping[int, _Entry] = tags) -> int:
            found = _values(file, tags[tag], size, form).tolist() if tag in tags else []
            return int(found[0]) if found else otherwise

        if not {256, 257, 322, 323, 324, 325} <= tags.keys():
            continue
        tables = b""
        if 347 in tags and tags[347].end <= size:
            file.seek(tags[347].at)
            tables = file.read(tags[347].values)
        yield Page(
            (first(256, 0), first(257, 0)),
            (first(322, 0), first(323, 0)),
            _values(file, tags[324], size, form),
            _values(file, tags[325], size, form),
            compression=first(259, 1),
            photometric=first(262, 0),
            samples=first(277, 1),
            planar=first(284, 1),
            tables=tables,
        )


def _format(file: BinaryIO) -> _Format:
    """Return the number formats of a TIFF, whose first offset is read next."""
    order = "<" if file.read(2) == b"II" else ">"
    if file.read(2) in (b"+\0", b"\0+"):
        file.seek(8)
        return _Format(order, f"{order}Q", f"{order}HHQ", f"{order}Q")
    return _Format(order, f"{order}H", f"{order}HHI", f"{order}I")


def _directory(file: BinaryIO, start: int, size: int, form: _Format) -> tuple[dict[int, _Entry], int]:
    """Return the tags of the directory at `start` and where the next one is; none beyond the end of the file."""
    first = start + struct.calcsize(form.entries)
    file.seek(start)
    length = _number(file, form.entries) * (struct.calcsize(form.head) + form.inline)
    if first + length + form.inline > size:
        return {}, 0
    tags = dict(_tags(file.read(length), first, form))
    return tags, _number(file, form.offset)


def _ends(file: BinaryIO, size: int) -> Iterator[int]:
    """Yield the end of everything the file refers to; directories beyond the end of the file are not followed."""
    form = _format(file)
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
        tags, following = _directory(file, start, size, form)
        pending.append(following)
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
