"""Run an iterator in a thread of its own, ahead of the one who consumes it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from slideseek.errors import SlideError

QUEUED = 2
"""Items a queue holds: of a slide, one is a few dozen patches."""

Item = TypeVar("Item")


class Background(Generic[Item]):
    """One iterator run in a daemon thread behind a short queue. A thread that hangs is left behind.

    patience: seconds to wait for the next item before `SlideError`.
    """

    def __init__(self, source: Callable[[], Iterator[Item]], patience: float) -> None:
        self._queue: queue.Queue[Item | BaseException | None] = queue.Queue(QUEUED)
        self._patience = patience
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(source,), daemon=True, name="slideseek-read")
        self._thread.start()

    def _work(self, source: Callable[[], Iterator[Item]]) -> None:
        try:
            for item in source():
                if not self._put(item):
                    return
            self._put(None)
        except BaseException as error:  # passed to the consumer, which raises it
            self._put(error)

    def _put(self, item: Item | BaseException | None) -> bool:
        while not self._cancelled.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Iterator[Item]:
        while True:
            try:
                item = self._queue.get(timeout=self._patience)
            except queue.Empty:
                self.cancel()
                raise SlideError(
                    f"reading hung (no progress for {self._patience:g} s)",
                    "check the disk or network share, then build again",
                ) from None
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def cancel(self) -> None:
        """Let the thread end at its next item; what it has queued is dropped."""
        self._cancelled.set()
