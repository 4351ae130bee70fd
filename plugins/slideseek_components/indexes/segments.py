"""Segments: the immutable pieces a store is made of, in memory or mapped from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Int64, Mask

from .folder import MappedFile


@dataclass(frozen=True, eq=False)
class Segment:
    """A run of slots. starts: int64 (n + 1,), slot i holds rows starts[i]:starts[i + 1] of every field.

    sources: the file of each field when the segment is mapped, else empty.
    """

    starts: Int64
    fields: Mapping[str, NDArray[Any]]
    sources: Mapping[str, MappedFile]

    @classmethod
    def of(
        cls,
        counts: Sequence[int] | Int64,
        fields: Mapping[str, NDArray[Any]],
        sources: Mapping[str, MappedFile] | None = None,
    ) -> Segment:
        """Make a segment of slides with `counts` rows each, which must not change any more."""
        starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        frozen = {name: array.view() for name, array in fields.items()}
        for array in (starts, *frozen.values()):
            array.flags.writeable = False  # also makes mapped and in-memory arrays one type to the compiled kernels
        return cls(starts, frozen, sources or {})

    @classmethod
    def merged(cls, parts: Sequence[Segment]) -> Segment:
        """Join segments in memory."""
        counts = np.concatenate([np.diff(part.starts) for part in parts])
        names = parts[0].fields
        return cls.of(counts, {name: np.concatenate([part.fields[name] for part in parts]) for name in names})

    def kept(self, alive: Mask) -> Segment:
        """Return the segment without its dead slots; itself when there are none. alive: bool (n,)."""
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
