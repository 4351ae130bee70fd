"""Options for how a network runs, not for what it computes."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, get_args

Device: TypeAlias = Literal["auto", "cpu", "cuda", "mps"]


def check_run_options(batch: int, device: str) -> None:
    """Check the options shared by featurizers with a network; raise a ValueError that names the field."""
    if batch < 1:
        raise ValueError(f"batch: at least 1, not {batch}")
    if device not in get_args(Device):
        raise ValueError(f"device: one of {', '.join(get_args(Device))}, not {device!r}")


def cores() -> int:
    """Return how many cores to use: OMP_NUM_THREADS if set, else all that this process may use."""
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1
