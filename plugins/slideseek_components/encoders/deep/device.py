"""Where the network runs, and how to run it reproducibly: the same inputs give the same bits."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch
from torch.utils import deterministic

from slideseek.errors import UsageError

_FILL = "fill_uninitialized_memory"  # a property set at run time, which type checkers cannot see

Device: TypeAlias = Literal["auto", "cpu", "cuda", "mps"]


def resolve(device: Device) -> torch.device:
    """Return the requested device; `auto` takes CUDA, then MPS, then the CPU."""
    usable = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device(next(name for name, here in usable.items() if here))
    if not usable[device]:
        raise UsageError(f"device = {device!r} is not available on this machine", "set device = 'auto' or 'cpu'")
    return torch.device(device)


_turn = threading.RLock()


def _after_fork() -> None:
    """Give a forked process a new lock: a thread that held the old one does not exist there to release it."""
    global _turn
    _turn = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Run PyTorch deterministically on `threads` CPU threads inside the block, and leave its settings as they were.

    The last bits of sums that PyTorch splits over threads depend on the number of threads. Lower precision that the
    caller allows elsewhere (autocast, fast float32 products) is turned off inside. The settings are global to the
    process, so Python threads take turns.
    """
    with _turn:
        yield from _strict(threads)


def free_threads() -> int:
    """Return how many CPU threads PyTorch may use: OMP_NUM_THREADS, the caller's setting, or all cores."""
    with _turn:
        return torch.get_num_threads()


def _strict(threads: int) -> Iterator[None]:
    before, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill, products = getattr(deterministic, _FILL), torch.get_float32_matmul_precision()
    flush = bool(torch.tensor([1e-40]).mul_(1) == 0)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    torch.set_flush_denormal(False)  # a setting of each thread; helper threads have this value
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory guards against reading it before writing, which never happens here, and costs time.
    setattr(deterministic, _FILL, False)
    try:
        # A tensor created in the caller's inference mode could not be trained or written to by another thread.
        with torch.inference_mode(False), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.set_flush_denormal(flush)
        setattr(deterministic, _FILL, fill)
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
        torch.set_num_threads(before)
