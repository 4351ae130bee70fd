"""Threads in which PyTorch uses one core each, and tasks shared between them."""

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
    """Start `count` threads in which PyTorch uses one core each; all other threads are unaffected.

    `torch.set_num_threads` sets the calling thread and the default for new threads. That default is restored as soon as
    all workers have started, under a lock, so concurrent calls do not change it.
    """
    started = threading.Barrier(count + 1)

    def pin() -> None:
        torch.get_num_threads()  # a thread adopts the default on first access: access it before setting
        torch.set_num_threads(1)
        with suppress(threading.BrokenBarrierError):
            started.wait()

    with _starting:
        before = torch.get_num_threads()
        pool = ThreadPoolExecutor(count, thread_name_prefix=name, initializer=pin)
        try:
            for _ in range(count):
                pool.submit(
                    int
                )  # a worker starts with a submitted call when none is idle, and none is past the barrier
            started.wait()
        except BaseException:  # an interrupt: threads that have started would wait for the others forever
            started.abort()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            torch.set_num_threads(before)
    return pool


def run_tasks(tasks: Sequence[Callable[[], None]], threads: int) -> None:
    """Run all `tasks`, up to `threads` of them at a time, the first ones first.

        They run outside Python's lock, in matrix products and compiled loops, each on one core. They must not call
    `run_tasks` themselves. After an error, running tasks finish, no others start, and the error is raised.
    """
    waiting = iter(tasks)

    def work() -> None:
        try:
            for task in waiting:
                task()
        except BaseException:
            for _ in waiting:  # start no more tasks
                pass
            raise

    others: list[Future[None]] = []
    helpers = min(threads, len(tasks)) - 1
    # During interpreter shutdown no thread can start: this one then runs all tasks.
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
    """Return tasks, each given with its size, in the order that lets the threads finish earliest."""
    return [task for _, task in sorted(tasks, key=lambda item: -item[0])]


@cache
def _pool(helpers: int) -> ThreadPoolExecutor:
    return single_core_pool(helpers, "slideseek-tasks")


def _after_fork() -> None:
    """Give a forked process a new lock and new pools: the threads that used the old ones do not exist there."""
    global _starting
    _starting = threading.Lock()
    _pool.cache_clear()


os.register_at_fork(after_in_child=_after_fork)
