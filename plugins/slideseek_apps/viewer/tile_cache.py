"""The most recently used tiles and thumbnails, kept in memory up to a number of bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

Value = TypeVar("Value")


class TileCache(Generic[Value]):
    """A thread-safe cache that drops the least recently used values when they exceed `limit` bytes."""

    def __init__(self, limit: int, size: Callable[[Value], int]) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._values: LRUCache[Hashable, Value] = LRUCache(limit, size)

    def get(self, name: Hashable) -> Value | None:
        """Return the cached value, or None."""
        with self._lock:
            return self._values.get(name)

    def put(self, name: Hashable, value: Value) -> None:
        """Cache a value. A value larger than the whole cache is not kept."""
        if self._size(value) <= self._values.maxsize:
            with self._lock:
                self._values[name] = value

    @property
    def nbytes(self) -> int:
        """Bytes in the cache now."""
        return int(self._values.currsize)
