"""Bounded thread pools: a few threads, a short queue, and an error when both are full."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class BusyError(Exception):
    """The queue is full; try again later."""


class WorkerPool:
    """Run blocking work in `workers` threads; at most `waiting` tasks run or wait at once.

    share: most threads that work on one subject, such as a slide: one that is slow does not hold up the others. Used
    from one event loop, so the counts need no lock.
    """

    def __init__(self, name: str, workers: int, waiting: int, share: int = 0) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"slideseek-{name}")
        self._waiting = waiting
        self._pending = 0
        self._share = share or workers
        self._subjects: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def run(self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Return what `work` returns, or raise `BusyError` at once."""
        if self._pending >= self._waiting:
            raise BusyError
        self._pending += 1
        future = self._pool.submit(work, *args, **kwargs)
        # Counted down when the work ends, not when its caller gives up: an abandoned tile still occupies a thread.
        loop = asyncio.get_running_loop()

        def ended(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, since the server was stopped
                loop.call_soon_threadsafe(self._ended)

        future.add_done_callback(ended)
        return await asyncio.wrap_future(future)

    async def run_on(
        self, subject: str, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Do as `run`, after other work on the same subject if that has its share of the threads."""
        if self._subjects.total() >= self._waiting:
            raise BusyError
        self._subjects[subject] += 1
        try:
            async with self._turns.setdefault(subject, asyncio.Semaphore(self._share)):
                return await self.run(work, *args, **kwargs)
        finally:
            self._subjects[subject] -= 1
            if not self._subjects[subject]:
                del self._subjects[subject], self._turns[subject]

    def begin(self, work: Callable[[], None]) -> None:
        """Start background work, ahead of later requests."""
        self._pool.submit(work)

    def close(self, seconds: float | None = None) -> bool:
        """Cancel waiting work and stop the threads; return whether all of them ended within some seconds."""
        self._pool.shutdown(wait=seconds is None, cancel_futures=True)
        until = time.monotonic() + (seconds or 0)
        for thread in self._pool._threads:  # the only list of them
            thread.join(None if seconds is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._pool._threads)

    def _ended(self) -> None:
        self._pending -= 1
