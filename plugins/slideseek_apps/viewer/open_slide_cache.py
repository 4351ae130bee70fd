"""Cache of open slides: the most recently used stay open between tiles, and are closed after their last reader."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from slideseek.errors import RegionError, SlideError
from slideseek.interfaces import OpenedSlide

MAX_OPEN = 24
MAX_BYTES = 2**30
"""Limit for plain images, which are held in memory as a whole. Above it the oldest are closed."""


@dataclass(slots=True)
class _Kept:
    opening: threading.Lock = field(default_factory=threading.Lock)
    slide: OpenedSlide | None = None
    readers: int = 0
    dropped: bool = False

    @property
    def nbytes(self) -> int:
        return self.slide.facts.nbytes if self.slide is not None else 0


class OpenSlideCache:
    """Lend open slides to any thread. A slide is never closed while it is being read."""

    def __init__(self, most: int = MAX_OPEN, nbytes: int = MAX_BYTES) -> None:
        self._most = most
        self._nbytes = nbytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @contextmanager
    def lend(self, name: str, opened: Callable[[], OpenedSlide]) -> Iterator[OpenedSlide]:
        """Lend the slide with a name. If it is not open, call `opened`, whose errors are raised here."""
        with self._lock:
            kept = self._kept.setdefault(name, _Kept())
            self._kept.move_to_end(name)
            kept.readers += 1
        try:
            with kept.opening:  # two tiles of one slide open it once; other slides do not wait
                if kept.slide is None:
                    kept.slide = opened()
            yield kept.slide
        except SlideError as error:
            if not isinstance(error, RegionError):  # its process may be gone: the next one opens it again
                with self._lock:
                    kept.dropped = True
                    if self._kept.get(name) is kept:
                        del self._kept[name]
            raise
        finally:
            with self._lock:
                kept.readers -= 1
                if kept.slide is None and kept.readers == 0 and self._kept.get(name) is kept:
                    del self._kept[name]  # it could not be opened
            self._tidy(kept)

    def interrupt(self) -> None:
        """Make reads in progress fail, where readers can."""
        with self._lock:
            slides = [kept.slide for kept in self._kept.values() if kept.slide is not None]
        for slide in slides:
            slide.interrupt()

    def close(self) -> None:
        """Close all slides not in use; the others are closed by their last reader."""
        with self._lock:
            dropped = list(self._kept.values())
            self._kept.clear()
            for kept in dropped:
                kept.dropped = True
        for kept in dropped:
            self._close(kept)

    def _tidy(self, returned: _Kept) -> None:
        with self._lock:
            dropped: list[_Kept] = []
            while len(self._kept) > 1 and (
                len(self._kept) > self._most or sum(kept.nbytes for kept in self._kept.values()) > self._nbytes
            ):
                _, oldest = self._kept.popitem(last=False)
                oldest.dropped = True
                dropped.append(oldest)
        for kept in (*dropped, returned):
            self._close(kept)

    def _close(self, kept: _Kept) -> None:
        with self._lock:
            closing = kept.slide if kept.dropped and kept.readers == 0 else None
            if closing is not None:
                kept.slide = None
        if closing is not None:
            closing.close()
