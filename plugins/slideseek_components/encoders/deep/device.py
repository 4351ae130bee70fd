"""Where the network runs, and how to run it so that the same inputs give the same bits."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch
from torch.utils import deterministic

from slideseek.errors import UsageError

_FILL = "fill_uninitialized_memory"  # the module makes it a property at run time, which type checkers cannot see

Device: TypeAlias = Literal["auto", "cpu", "cuda", "mps"]


def resolve(device: Device) -> torch.device:
    """Return the device asked for; `auto` takes CUDA, then MPS, then the CPU."""
    usable = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device(next(name for name, here in usable.items() if here))
    if not usable[device]:
        raise UsageError(f"device = {device!r} is not available on this machine", "set device = 'auto' or 'cpu'")
    return torch.device(device)


_turn = threading.RLock()


def _after_fork() -> None:
    """Give a forked process a lock of its own: a thread that held it has no copy there to give it back."""
    global _turn
    _turn = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Run PyTorch deterministically on `threads` CPU threads inside the block, and leave its settings as they were.

    Sums that PyTorch splits over threads depend on their number in the last bits. Lower precision that the caller
    has allowed for his own networks (autocast, fast float32 products) does not reach inside. The settings belong to the
    process, so Python threads take turns: none runs with what another has put back.
    """
    with _turn:
        yield from _strict(threads)


def free_threads() -> int:
    """Return how many CPU threads PyTorch may use: OMP_NUM_THREADS, what the caller has set, or all cores."""
    with _turn:
        return torch.get_num_threads()


def _strict(threads: int) -> Iterator[None]:
    before, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill, products = getattr(deterministic, _FILL), torch.get_float32_matmul_precision()
    flush = bool(torch.tensor([1e-40]).mul_(1) == 0)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    torch.set_flush_denormal(False)  # each thread has its own setting, and helpers have this one
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory guards against reading it before it is written, which nothing here does, and costs time.
    setattr(deterministic, _FILL, False)
    try:
        # A tensor made in the caller's inference mode could not be written to by another thread, nor trained.
        with torch.inference_mode(False), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.set_flush_denormal(flush)
        setattr(deterministic, _FILL, fill)
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
        torch.set_num_threads(before)
