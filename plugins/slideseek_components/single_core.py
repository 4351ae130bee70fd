"""Threads in each of which PyTorch computes on one core, and tasks shared out between them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import cache

import torch

_starting = threading.Lock()


def single_core_pool(count: int, name: str) -> ThreadPoolExecutor:
    """Start `count` threads in which PyTorch uses one core each; in all others it goes on as before.

    `torch.set_num_threads` sets the calling thread, and with it the default of threads to come: that default is put
    back as soon as all workers have started, under a lock, so that concurrent calls leave it alone.
    """
    started = threading.Barrier(count + 1)

    def pin() -> None:
        torch.get_num_threads()  # a thread takes over the default at its first question: ask before setting
        torch.set_num_threads(1)
        started.wait()

    with _starting:
        before = torch.get_num_threads()
        pool = ThreadPoolExecutor(count, thread_name_prefix=name, initializer=pin)
        for _ in range(count):
            pool.submit(int)  # a worker starts with a submitted call when none is idle, and none is past the barrier
        started.wait()
        torch.set_num_threads(before)
    return pool


def run_tasks(tasks: Sequence[Callable[[], None]], threads: int) -> None:
    """Run all `tasks`, up to `threads` of them at a time, the first ones first.

    They spend their time outside Python's lock, in matrix products and compiled loops, each on one core. They must not
    call `run_tasks` themselves. An error of one is raised when those that were under way have ended; others do not
    begin.
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
    return single_core_pool(helpers, "slideseek-tasks")


def _after_fork() -> None:
    """Give a forked process a lock and pools of its own: the threads that hold or serve these have no copy there."""
    global _starting
    _starting = threading.Lock()
    _pool.cache_clear()


os.register_at_fork(after_in_child=_after_fork)
