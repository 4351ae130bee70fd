"""Storage shared by every bundled index: slides in append order, tombstones, spaces, masks and persistence.

A slide is a run of *rows*; a row is one entry in each of the store's parallel arrays ("fields"). Their meaning depends
on the index: a packed barcode, a vector and its norm, or one non-zero of a sparse vector. Slides live in *slots*,
numbered in the order they were added. Slots are grouped in immutable segments, in memory or memory-mapped, so adding to
a mapped index does not touch old data. Neighbouring segments of similar size are merged, which keeps their number
logarithmic. A removed slide leaves a dead slot until the store is compacted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import SlideseekError
from slideseek.types import Int32, Int64, Mask

from . import folder as files

IDS, SLIDES = "ids.bin", "slides.npy"
DEAD_SHARE = 0.25
"""Share of dead slots above which a removal compacts immediately."""


@dataclass(frozen=True, eq=False)
class Segment:
    """A run of slots. starts: int64 (n + 1,), slot i has rows starts[i]:starts[i + 1] of every field.

    sources: the file of each field if the segment is mapped, else empty.
    """

    starts: Int64
    fields: Mapping[str, NDArray[Any]]
    sources: Mapping[str, files.MappedFile]

    @classmethod
    def of(
        cls,
        counts: Sequence[int] | Int64,
        fields: Mapping[str, NDArray[Any]],
        sources: Mapping[str, files.MappedFile] | None = None,
    ) -> Segment:
        """Create a segment of slides with `counts` rows each, which must not change afterwards."""
        starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        frozen = {name: array.view() for name, array in fields.items()}
        for array in (starts, *frozen.values()):
            array.flags.writeable = False  # and gives mapped and in-memory arrays one type in the compiled kernels
        return cls(starts, frozen, sources or {})

    @classmethod
    def merged(cls, parts: Sequence[Segment]) -> Segment:
        """Join segments in memory."""
        counts = np.concatenate([np.diff(part.starts) for part in parts])
        names = parts[0].fields
        return cls.of(counts, {name: np.concatenate([part.fields[name] for part in parts]) for name in names})

    def kept(self, alive: Mask) -> Segment:
        """Return the segment without its dead slots; itself if there are none. alive: bool (n,)."""
        if alive.all():
            return self
        counts = np.diff(self.starts)
        rows = np.repeat(alive, counts)
        return self.of(counts[alive], {name: array[rows] for name, array in self.fields.items()})

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def single(self) -> bool:
        """Whether every slide has exactly one row, given that none has zero."""
        return int(self.starts[-1]) == len(self)

    @cached_property
    def whole(self) -> Int64:
        """All slides as one run, (first, last + 1): int64 (1, 2)."""
        return np.array([[0, len(self)]])

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the fields."""
        return sum(array.nbytes for array in self.fields.values())


@dataclass(frozen=True, eq=False)
class Ranking:
    """Slots in the order of their ids, which breaks ties between equal distances.

    ids: sorted. slots: int64 (n,), the slot of each of them. ranks: int32 (n,), the place of each slot in that order.
    """

    ids: Sequence[str]
    slots: Int64
    ranks: Int32
    version: int

    @classmethod
    def of(cls, slot_ids: Sequence[str], version: int) -> Ranking:
        """Sort the ids of slots."""
        slots = np.array(sorted(range(len(slot_ids)), key=slot_ids.__getitem__), np.int64)
        ranks = np.empty(len(slots), np.int32)
        ranks[slots] = np.arange(len(slots), dtype=np.int32)
        return cls([slot_ids[slot] for slot in slots.tolist()], slots, ranks, version)


class SlideStore:
    """The slides of an index.

    columns: of the codes passed to `add`; 0 while the store is empty. version: changes when slots get new content.
    layout: changes when slots get new numbers.
    """

    def __init__(self) -> None:
        self.columns = 0
        self.version = 0
        self.layout = 0
        self.segments: list[Segment] = []
        self.slot_ids: list[str] = []
        self.spaces: list[str] = []
        self.slot_spaces: NDArray[np.int32] = np.empty(0, np.int32)
        self.alive: Mask = np.empty(0, np.bool_)
        self._dead = 0
        self._slot_of: dict[str, int] | None = None
        self._live_ids: tuple[str, ...] | None = None
        self._ranking: Ranking | None = None

    @property
    def ranking(self) -> Ranking:
        """The slots in the order of their ids, computed on first use after slots get new content."""
        if self._ranking is None or self._ranking.version != self.version:
            self._ranking = Ranking.of(self.slot_ids, self.version)
        return self._ranking

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the live slides, in slot order."""
        if self._live_ids is None:
            slots = np.flatnonzero(self.alive).tolist()
            self._live_ids = tuple(self.slot_ids[slot] for slot in slots)
        return self._live_ids

    @property
    def single(self) -> bool:
        """Whether every slide has exactly one row, given that none has zero."""
        return all(segment.single for segment in self.segments)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, including those of dead slots."""
        return sum(segment.nbytes for segment in self.segments)

    def add(
        self,
        columns: int,
        slide_ids: Sequence[str],
        spaces: Sequence[str],
        counts: Sequence[int],
        fields: Mapping[str, NDArray[Any]],
    ) -> None:
        """Append slides. counts: rows of each slide, in the order of the arrays of `fields`."""
        if not slide_ids:
            return
        self._check_new(slide_ids)
        slot_of, first = self._slots(), len(self.slot_ids)
        slot_of.update((slide_id, first + at) for at, slide_id in enumerate(slide_ids))
        self.columns = columns
        self.slot_ids.extend(slide_ids)
        known = {space: number for number, space in enumerate(self.spaces)}
        numbers = [known.setdefault(space, len(known)) for space in spaces]
        self.spaces = list(known)
        self.slot_spaces = np.concatenate([self.slot_spaces, np.array(numbers, np.int32)])
        self.alive = np.concatenate([self.alive, np.ones(len(slide_ids), np.bool_)])
        self._live_ids = None
        self.version += 1
        self.segments.append(Segment.of(counts, fields))
        while len(self.segments) > 1 and self.segments[-2].nbytes <= 2 * self.segments[-1].nbytes:
            self.segments[-2:] = [Segment.merged(self.segments[-2:])]

    def remove(self, slide_ids: Sequence[str]) -> None:
        """Remove slides, all or none."""
        slot_of = self._slots()
        unknown = sorted({slide_id for slide_id in slide_ids if slide_id not in slot_of})
        if unknown:
            raise SlideseekError(f"not in the index: {_some(unknown)}", "nothing was removed; check the slide ids")
        slots = [slot_of[slide_id] for slide_id in slide_ids]
        self.alive[slots] = False
        self._dead = len(self.alive) - int(np.count_nonzero(self.alive))
        for slide_id in set(slide_ids):
            del slot_of[slide_id]
        self._live_ids = None
        if self._dead > DEAD_SHARE * len(self.alive):
            self.compact()

    def compact(self) -> None:
        """Drop dead slots and renumber the rest; segments without a dead slot stay as they are."""
        if not self._dead:
            return
        kept = [segment.kept(self.alive[base : base + len(segment)]) for base, segment in self.based_segments()]
        self.segments = [segment for segment in kept if len(segment)]
        self.slot_ids = list(self.ids)
        self.slot_spaces = self.slot_spaces[self.alive]
        used, numbers = np.unique(self.slot_spaces, return_inverse=True)
        self.spaces = [self.spaces[number] for number in used.tolist()]
        self.slot_spaces = numbers.astype(np.int32)
        self.alive = np.ones(len(self.slot_ids), np.bool_)
        self._dead, self._slot_of = 0, None
        self.version += 1
        self.layout += 1
        if not self.slot_ids:
            self.columns = 0

    def based_segments(self) -> Iterator[tuple[int, Segment]]:
        """Yield each segment with the number of its first slot."""
        base = 0
        for segment in self.segments:
            yield base, segment
            base += len(segment)

    def candidates(self, space: str, among: Mask | None) -> Mask | None:
        """Return which slots are candidates for a query of `space`, bool (slots,), or None if all are.

        among: bool (len(ids),) or None for all.
        """
        live = len(self.alive) - self._dead
        if among is not None and (among.dtype != np.bool_ or among.shape != (live,)):
            raise ValueError(f"among must be bool ({live},) in the order of ids, not {among.dtype} {among.shape}")
        if space not in self.spaces:
            return np.zeros(len(self.alive), np.bool_)
        if among is None:
            wanted = self.alive
        elif self._dead:
            wanted = self.alive.copy()
            wanted[self.alive] = among
        else:
            wanted = among
        if len(self.spaces) > 1:
            wanted = wanted & (self.slot_spaces == self.spaces.index(space))
        return None if wanted is self.alive and not self._dead else wanted

    def slots(self, wanted: Mask | None) -> Int64:
        """Return the wanted slots, ascending; None for all."""
        return np.arange(len(self.slot_ids)) if wanted is None else np.flatnonzero(wanted)

    def slot(self, slide_id: str) -> int:
        """Return the slot of a live slide."""
        return self._slots()[slide_id]

    def rows(self, slot: int, field: str) -> NDArray[Any]:
        """Return the rows of one slot in a field."""
        base, segment = next(pair for pair in self.based_segments() if slot < pair[0] + len(pair[1]))
        first, last = segment.starts[slot - base : slot - base + 2]
        return segment.fields[field][first:last]

    def save(self, folder: Path, index: str) -> None:
        """Compact, then write everything into `folder`; files of unchanged mapped segments are linked, not copied."""
        self.compact()
        blobs = [slide_id.encode() for slide_id in self.slot_ids]
        rows = np.concatenate([np.empty(0, np.int64), *(np.diff(segment.starts) for segment in self.segments)])
        slides = np.empty((len(blobs), 3), np.int64)
        slides[:, 0] = np.cumsum([len(blob) for blob in blobs])
        slides[:, 1] = rows
        slides[:, 2] = self.slot_spaces
        files.write_bytes(folder / IDS, b"".join(blobs))
        files.write_array(folder / SLIDES, slides)
        listed: list[dict[str, Any]] = []
        for number, segment in enumerate(self.segments):
            described = {}
            for name, array in segment.fields.items():
                target = f"{name}-{number}.npy"
                files.write_array(folder / target, array, segment.sources.get(name))
                described[name] = {"file": target, "dtype": array.dtype.str, "shape": list(array.shape)}
            listed.append({"slides": len(segment), "fields": described})
        content = {"columns": self.columns, "slides": len(blobs), "spaces": self.spaces, "segments": listed}
        files.write_header(folder, index, content, [IDS, SLIDES])

    def load(self, folder: Path, index: str) -> None:
        """Replace the content with what `save` wrote; large arrays are memory-mapped."""
        header = files.read_header(folder, index)
        blob = files.checked(folder, IDS, header).read_bytes()
        slides = np.load(files.checked(folder, SLIDES, header), allow_pickle=False)
        ends = [0, *slides[:, 0].tolist()]
        segments, base = [], 0
        for listed in header["segments"]:
            counts = slides[base : base + listed["slides"], 1]
            base += len(counts)
            arrays, sources = {}, {}
            for name, field in listed["fields"].items():
                path = folder / field["file"]
                arrays[name] = files.map_array(path, np.dtype(field["dtype"]), tuple(field["shape"]))
                sources[name] = files.MappedFile.at(path)
            segments.append(Segment.of(counts, arrays, sources))
        self.columns = header["columns"]
        self.spaces = header["spaces"]
        self.slot_ids = [blob[start:end].decode() for start, end in pairwise(ends)]
        self.slot_spaces = slides[:, 2].astype(np.int32)
        self.alive = np.ones(len(slides), np.bool_)
        self.segments = segments
        self.version += 1
        self.layout += 1
        self._dead, self._slot_of, self._live_ids = 0, None, None

    def _slots(self) -> dict[str, int]:
        """Map live ids to slots, computed on first use: a search never needs it."""
        if self._slot_of is None:
            slots = np.flatnonzero(self.alive).tolist()
            self._slot_of = dict(zip(self.ids, slots, strict=True))
        return self._slot_of

    def _check_new(self, slide_ids: Sequence[str]) -> None:
        slot_of, fresh = self._slots(), set(slide_ids)
        there = [slide_id for slide_id in fresh if slide_id in slot_of]
        if there:
            raise SlideseekError(f"already in the index: {_some(sorted(there))}", "remove it before adding it again")
        if len(fresh) != len(slide_ids):
            twice = sorted(slide_id for slide_id, count in Counter(slide_ids).items() if count > 1)
            raise SlideseekError(f"given twice: {_some(twice)}", "add each slide once")


def runs(store: SlideStore, wanted: Mask | None) -> Iterator[tuple[int, Segment, Int64]]:
    """Yield each segment with its first slot and its wanted slides (None for all) as runs of consecutive ones.

    A run is (first, last + 1), counted within the segment: int64 (r, 2).
    """
    for base, segment in store.based_segments():
        if wanted is None:
            yield base, segment, segment.whole
            continue
        here = wanted[base : base + len(segment)]
        edges = np.flatnonzero(here[1:] != here[:-1]) + 1
        first, last = [0] if here[0] else [], [len(here)] if here[-1] else []
        yield base, segment, np.concatenate([first, edges, last]).astype(np.int64).reshape(-1, 2)


def blocks(store: SlideStore, wanted: Mask | None, nbytes: int) -> Iterator[tuple[dict[str, NDArray[Any]], Int64]]:
    """Yield the fields of the wanted slides (None for all), in slot order, about `nbytes` at a time.

    Also yields where each slide's rows start: int64 (slides + 1,). Neighbouring slides are not copied.
    """
    for base, segment in store.based_segments():
        here = np.arange(len(segment)) if wanted is None else np.flatnonzero(wanted[base : base + len(segment)])
        for block in _cut(here, segment, nbytes):
            begins, counts = segment.starts[block], segment.starts[block + 1] - segment.starts[block]
            starts = np.zeros(len(block) + 1, np.int64)
            np.cumsum(counts, out=starts[1:])
            rows: slice | Int64 = slice(int(begins[0]), int(begins[0] + starts[-1]))
            if block[-1] - block[0] + 1 != len(block):
                rows = np.repeat(begins - starts[:-1], counts) + np.arange(starts[-1])
            yield {name: array[rows] for name, array in segment.fields.items()}, starts


def _cut(slides: Int64, segment: Segment, nbytes: int) -> list[Int64]:
    """Divide slides of a segment into blocks of about `nbytes`; no block is empty."""
    if segment.nbytes <= nbytes:
        return [slides] if len(slides) else []
    row_bytes = segment.nbytes / max(1, int(segment.starts[-1]))
    ends = np.cumsum(segment.starts[slides + 1] - segment.starts[slides]) * row_bytes
    return [block for block in np.split(slides, np.flatnonzero(np.diff(ends // nbytes)) + 1) if len(block)]


def _some(slide_ids: Sequence[str]) -> str:
    named = ", ".join(repr(slide_id) for slide_id in slide_ids[:3])
    return named if len(slide_ids) <= 3 else f"{named} and {len(slide_ids) - 3} more"
