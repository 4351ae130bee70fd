"""How fast a grid goes: the time left, and epochs told often enough to see that training lives."""

from __future__ import annotations

import time
from collections.abc import Mapping

from slideseek.building.reporting import Reporter

EVERY = 5.0
"""Seconds between two epochs that are told; the last one of a training always is."""


class RunProgress:
    """Keep the time of a run."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._told = 0.0
        self._began = 0.0
        self._seconds: list[float] = []

    def cell_begins(self) -> None:
        """Work on a cell begins."""
        self._began = time.perf_counter()

    def cell_over(self) -> None:
        """The cell is done."""
        self._seconds.append(time.perf_counter() - self._began)

    def left(self, cells: int) -> str:
        """Say how long the last cell took and about how long `cells` more will take."""
        mean = sum(self._seconds) / len(self._seconds)
        rest = f", about {duration(mean * cells)} left" if cells else ""
        return f"  ({duration(self._seconds[-1])}{rest})"

    def epoch(self, name: str, metrics: Mapping[str, float]) -> None:
        """Tell an epoch of a training, unless one was told a moment ago."""
        now = time.perf_counter()
        if now - self._told >= EVERY or metrics.get("epoch") == metrics.get("epochs"):
            self._told = now
            self._reporter.epoch(name, metrics)


def duration(seconds: float) -> str:
    """Return a time in the unit a person would use."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
