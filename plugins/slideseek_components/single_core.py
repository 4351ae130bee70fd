"""Threads in each of which PyTorch computes on one core."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

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


def _after_fork() -> None:
    """Make a lock anew in a forked process: a thread that held it has no copy there to give it back."""
    global _starting
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
