"""A row of the table: what is tried, its bar, and the figures it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to try. work: an empty folder for archives, on a disk with some space. short: as in the suite.

    only: make only figures whose name contains this text.
    """

    work: Path
    short: bool = False
    seed: int = 0
    only: str = ""

    def wants(self, what: str) -> bool:
        """Return whether a figure is to be made."""
        return self.only in what

    def trials(self, long: int, short: int) -> int:
        """Return how many trials to make."""
        return short if self.short else long


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    what: what was done to what. trials: how often. seen: what was counted. met: whether the bar is met. missed: why
    not, and what was tried; a figure that does not meet its bar must say so before the table is published.
    """

    what: str
    trials: int
    seen: Mapping[str, int | float | str]
    met: bool
    missed: str = ""
    examples: tuple[str, ...] = field(default=(), compare=False)
    """A few failed trials as text, so that they can be looked into; not part of the page."""


Run: TypeAlias = Callable[[Effort], Iterator[Figure]]


@dataclass(frozen=True, slots=True)
class Row:
    """What is tried and what has to hold. name: as on the command line. title, bar: as on the page."""

    name: str
    title: str
    bar: str
    run: Run
