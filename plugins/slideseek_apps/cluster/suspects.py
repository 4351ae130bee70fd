"""Slides whose workers died: does the slide end them, or do machines vanish?

Dask counts for every task how many workers died while they had it, and gives it up after `allowed-failures` of them.
It cannot tell a slide that runs out of memory from one that was interrupted by chance, or that waited on a worker which
another slide ended. So a slide that Dask gives up is suspected only, and tried again alone: nothing else runs in that
worker process meanwhile. It is to blame once enough workers have died while they worked on it alone.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from slideseek.interfaces import Work

DEATHS_ALONE = 3
"""Workers that die while a slide is tried alone, until it is to blame: 7 in all with Dask's default of 3."""

MOST_ROUNDS = 8
"""How often a slide that Dask gives up is tried alone at most, where its workers die before they begin."""


class Suspects:
    """The slides that wait to be tried alone, one at a time: none waits on a worker that another one ends."""

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()
        self._on_trial: Work | None = None
        self._begun: list[str] = []
        self._rounds = 0

    def __len__(self) -> int:
        """How many are still to be tried."""
        return len(self._waiting)

    def next(self) -> Work | None:
        """Return the slide to try now, None if there is none or another one is being tried."""
        if self._on_trial is None and self._waiting:
            self._on_trial, self._begun, self._rounds = self._waiting.popleft(), [], 0
            return self._on_trial
        return None

    def heard(self, message: Any) -> None:
        """Take a message of a worker: it has begun to work on the slide that is being tried."""
        if "begun" in message:
            self._begun.append(message["begun"])

    def killed(self, work: Work) -> str:
        """Return what to do with a slide that Dask gave up: "wait" for its trial, try it "again", or "blame" it."""
        if work is not self._on_trial:
            self._waiting.append(work)
            return "wait"
        self._rounds += 1
        if len(self._begun) < DEATHS_ALONE and self._rounds < MOST_ROUNDS:
            return "again"
        self._on_trial = None
        return "blame"

    def done(self, work: Work) -> None:
        """The slide is done, or failed for another reason."""
        if work is self._on_trial:
            self._on_trial = None
