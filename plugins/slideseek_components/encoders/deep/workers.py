"""Independent pieces of work on several CPU threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import cache

from slideseek_components.single_core import single_core_pool


def run(tasks: Sequence[Callable[[], None]], threads: int) -> None:
    """Run all `tasks`, up to `threads` of them at a time, the first ones first.

    They spend their time outside Python's lock, in matrix products and compiled loops, each on one core. They must not
    call `run` themselves. An error of one is raised when those that were under way have ended; others do not begin.
    """
    waiting = iter(tasks)

    def work() -> None:
        try:
            for task in waiting:
                task()
        except BaseException:
            for _ in waiting:  # nobody begins another
                pass
            raise

    others: list[Future[None]] = []
    helpers = min(threads, len(tasks)) - 1
    # Where the interpreter is ending it starts no thread any more: this one then does it all.
    with suppress(RuntimeError):
        others.extend(_pool(threads - 1).submit(copy_context().run, work) for _ in range(helpers))
    try:
        work()
    finally:
        failed = [other.exception() for other in others if not other.cancel()]
    for error in failed:
        if error is not None:
            raise error


def longest_first(tasks: Iterable[tuple[int, Callable[[], None]]]) -> list[Callable[[], None]]:
    """Return tasks, given each with its size, in the order in which threads that share them out end soonest."""
    return [task for _, task in sorted(tasks, key=lambda item: -item[0])]


@cache
def _pool(helpers: int) -> ThreadPoolExecutor:
    return single_core_pool(helpers, "slideseek-gradients")


# A forked process has a copy of the pools but none of their threads, and would wait for them for ever.
os.register_at_fork(after_in_child=_pool.cache_clear)
