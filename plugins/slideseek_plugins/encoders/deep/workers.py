"""Independent pieces of work on several CPU threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

Result = TypeVar("Result")


def run(tasks: Sequence[Callable[[], Result]], threads: int) -> list[Result]:
    """Return the results of `tasks` in their order, of which up to `threads` run at a time, the first ones first.

    Tasks spend their time outside Python's lock: in matrix products and compiled loops.
    """
    results: dict[int, Result] = {}
    waiting = iter(enumerate(tasks))

    def work() -> None:
        for number, task in waiting:
            results[number] = task()

    helpers = min(threads, len(tasks)) - 1
    others = [_pool(threads - 1).submit(work) for _ in range(helpers)]
    work()
    for other in others:
        other.result()
    return [results[number] for number in range(len(tasks))]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    # How many threads a matrix product takes is a setting of the thread that calls it, and a new one begins with all.
    return ThreadPoolExecutor(threads, "slideseek-gradients", torch.set_num_threads, (1,))


# A forked process has a copy of the pool but none of its threads, and would wait for them for ever.
os.register_at_fork(after_in_child=_pool.cache_clear)
