"""Run the work of a build in the process that builds, and read the next slides meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

from slideseek.interfaces import Executor, Work
from slideseek_components.executors.background import Background


@dataclass(frozen=True)
class Local(Executor):
    """Compute in the process that builds, slide by slide; threads open and read the next slides meanwhile.

    Each slide ahead has its own thread and a short queue. Memory is bounded by the slides ahead times the images in a
    queue, and a slide that hangs is given up without stopping the others.

    workers: slides to read ahead, 0 to read each one when its turn comes.

    patience: seconds without progress in reading a slide before it is given up.
    """

    workers: int = 1
    patience: float = 600.0

    def __post_init__(self) -> None:
        if not 0 <= self.workers <= 64:
            raise ValueError(f"workers must be from 0 to 64, not {self.workers}")
        if self.patience <= 0:
            raise ValueError(f"patience must be positive, not {self.patience:g}")

    def run(self, works: Iterable[Work]) -> Generator[tuple[Work, Iterable[Any]], None, None]:
        """Yield each work with its results, in order; they are computed when they are asked for."""
        if self.workers == 0:
            for work in works:
                yield work, work.compute(work.read())
            return
        waiting: deque[tuple[Work, Background[Any]]] = deque()
        remaining = iter(works)
        try:
            while True:
                while len(waiting) <= self.workers and (following := next(remaining, None)) is not None:
                    waiting.append((following, Background(following.read, self.patience)))
                if not waiting:
                    return
                work, reading = waiting.popleft()
                try:
                    yield work, work.compute(iter(reading))
                finally:
                    reading.cancel()
        finally:
            for _, reading in waiting:
                reading.cancel()
