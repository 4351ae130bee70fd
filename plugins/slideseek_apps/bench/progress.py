"""Progress of a run and of a report: the time left, epochs often enough to see training go on, the current step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from slideseek.building.reporting import Reporter
from slideseek.cli.progress import on_terminal

EVERY = 5.0
"""Seconds between two epochs that are reported; the last epoch of a training always is."""


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Show the current step on a temporary line; nothing if standard error is not a terminal."""
    if not on_terminal():
        yield lambda _: None
        return
    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(escape(text))


class RunProgress:
    """Time the cells of a run, and report epochs."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._reported = 0.0
        self._began = 0.0
        self._seconds: list[float] = []

    def start_cell(self) -> None:
        """Note the start of a cell."""
        self._began = time.perf_counter()

    def end_cell(self) -> None:
        """Note the end of a cell."""
        self._seconds.append(time.perf_counter() - self._began)

    def left(self, cells: int) -> str:
        """Say how long the last cell took and about how long `cells` more cells will take."""
        mean = sum(self._seconds) / len(self._seconds)
        rest = f", about {duration(mean * cells)} left" if cells else ""
        return f"  ({duration(self._seconds[-1])}{rest})"

    def epoch(self, name: str, metrics: Mapping[str, float]) -> None:
        """Report an epoch of a training, unless one was reported less than `EVERY` seconds ago."""
        now = time.perf_counter()
        if now - self._reported >= EVERY or metrics.get("epoch") == metrics.get("epochs"):
            self._reported = now
            self._reporter.epoch(name, metrics)


def duration(seconds: float) -> str:
    """Return a time with the unit a person would use: seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
