"""Bags read from disk one at a time: training does not load a whole archive into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from slideseek.types import Bag, SlideRecord


class ArchiveBags(Sequence[Bag]):
    """The bags of some slides of an archive; each is read when indexed, and its SHA-256 is checked the first time.

    Training reads the same bag many times, a piece at a time. read: returns the bag of a key and a record; trusted, its
    SHA-256 is not checked.
    """

    def __init__(
        self, read: Callable[[str, SlideRecord, bool], Bag], slides: Sequence[tuple[SlideRecord, str]]
    ) -> None:
        self._read = read
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
            return ArchiveBags(self._read, self._slides[at])
        record, key = self._slides[at]
        bag = self._read(key, record, key in self._checked)
        self._checked.add(key)
        return bag
