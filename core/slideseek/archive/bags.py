"""Bags read from disk one at a time, so that training needs no archive in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from slideseek.archive.archive import Archive
from slideseek.types import Bag, SlideRecord


class ArchiveBags(Sequence[Bag]):
    """The bags of some slides of an archive; each is read, and its SHA-256 checked, when it is asked for."""

    def __init__(self, archive: Archive, slides: Sequence[tuple[SlideRecord, str]]) -> None:
        self._archive = archive
        self._slides = slides

    def __len__(self) -> int:
        return len(self._slides)

    @overload
    def __getitem__(self, at: int) -> Bag: ...

    @overload
    def __getitem__(self, at: slice) -> ArchiveBags: ...

    def __getitem__(self, at: int | slice) -> Bag | ArchiveBags:
        if isinstance(at, slice):
            return ArchiveBags(self._archive, self._slides[at])
        record, key = self._slides[at]
        return self._archive.bag(key, record)
