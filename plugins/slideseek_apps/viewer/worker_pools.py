"""Bounded thread pools: a few threads, a short queue, and an error when both are full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class BusyError(Exception):
    """The queue is full; try again later."""


class WorkerPool:
    """Run blocking work in `workers` threads; at most `waiting` tasks run or wait at once.

    Used from one event loop, so the count needs no lock.
    """

    def __init__(self, name: str, workers: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"slideseek-{name}")
        self._waiting = waiting
        self._pending = 0

    async def run(self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Return what `work` returns, or raise `BusyError` at once."""
        if self._pending >= self._waiting:
            raise BusyError
        self._pending += 1
        future = self._pool.submit(work, *args, **kwargs)
        # Counted down when the work ends, not when its caller gives up: an abandoned tile still occupies a thread.
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended))
        return await asyncio.wrap_future(future)

    def begin(self, work: Callable[[], None]) -> None:
        """Start background work, ahead of later requests."""
        self._pool.submit(work)

    def close(self) -> None:
        """Cancel waiting work and stop the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _ended(self) -> None:
        self._pending -= 1
