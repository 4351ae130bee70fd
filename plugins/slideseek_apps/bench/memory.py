"""Measure peak memory."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Reset the peak where the system can (Linux); elsewhere it is that of the whole process."""
    with contextlib.suppress(OSError):
        _RESET.write_text("5")


def peak_mb() -> float:
    """Return the peak resident memory in MiB since the last reset."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
