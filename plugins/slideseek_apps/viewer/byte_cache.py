"""The latest results kept in memory, up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """Keep values by name; when they come to more than `limit` bytes the least recently used go. For any thread."""

    def __init__(self, limit: int, size: Callable[[Value], int]) -> None:
        self._limit = limit
        self._size = size
        self._held = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, name: Hashable) -> Value | None:
        """Return what is kept under a name, if anything."""
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
            return self._values.get(name)

    def put(self, name: Hashable, value: Value) -> None:
        """Keep a value; one larger than the whole cache is not kept."""
        size = self._size(value)
        if size > self._limit:
            return
        with self._lock:
            if (old := self._values.pop(name, None)) is not None:
                self._held -= self._size(old)
            self._values[name] = value
            self._held += size
            while self._held > self._limit:
                _, gone = self._values.popitem(last=False)
                self._held -= self._size(gone)

    @property
    def nbytes(self) -> int:
        """Bytes kept now."""
        return self._held
