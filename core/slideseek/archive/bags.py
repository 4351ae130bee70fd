"""Bags read from disk one at a time: training does not load a whole archive into memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from slideseek.archive.archive import Archive
from slideseek.types import Bag, SlideRecord


class ArchiveBags(Sequence[Bag]):
    """The bags of some slides of an archive; each is read when indexed, and its SHA-256 is checked the first time.

    Training reads the same bag many times, a piece at a time.
    """

    def __init__(self, archive: Archive, slides: Sequence[tuple[SlideRecord, str]]) -> None:
        self._archive = archive
        self._slides = slides
        self._checked: set[str] = set()

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
        bag = self._archive.bag(key, record, trusted=key in self._checked)
        self._checked.add(key)
        return bag
