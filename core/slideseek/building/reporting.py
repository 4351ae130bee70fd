"""What a build reports while it runs, and its summary at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Literal, Protocol, TypeAlias

Outcome: TypeAlias = Literal["ok", "skipped", "failed", "known"]


@dataclass(frozen=True, slots=True)
class SlideReport:
    """The outcome of one slide in one phase.

    `skipped` means done before, `known` a failure that was accepted; a slide without tissue has failed. passing: a disk
    or a network failed, not the slide.
    """

    slide_id: str
    outcome: Outcome
    cause: str = ""
    fix: str = ""
    notes: tuple[str, ...] = ()
    passing: bool = False


class Reporter(Protocol):
    """Shows what a build is doing; methods an implementation omits show nothing."""

    def phase(self, name: str, total: int, brief: bool = False) -> None:
        """A phase of `total` slides begins; a brief one takes milliseconds per slide and needs no line for each."""
        return

    def skip(self, slide_ids: Sequence[str]) -> None:
        """These slides of the phase were done before; reported all at once."""
        return

    def begin(self, slide_id: str) -> None:
        """Work on a slide begins."""
        return

    def slide(self, report: SlideReport) -> None:
        """A slide is finished in this phase, and committed."""
        return

    def epoch(self, engine: str, metrics: Mapping[str, float]) -> None:
        """An epoch of an encoder's training is over: `epoch`, `epochs` and its losses."""
        return

    def note(self, text: str) -> None:
        """A note for the user."""
        return


class Silent(Reporter):
    """Show nothing: the summary of a build lists what was done."""


@dataclass(slots=True)
class BuildSummary:
    """What a build did.

    counts: slides by outcome of the features phase. failures: the last report of each failed slide. known: the same
    for failures that were accepted. seconds: wall time by phase. stage_seconds: wall time of each slide by stage.
    indexed: slides by engine. notes: the notes shown. tissue: area in µm² of the tissue found on the slides selected
    now, and of the part that no patch to choose from shows. report: the path of the report page.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, SlideReport] = field(default_factory=dict)
    known: dict[str, SlideReport] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    stage_seconds: dict[str, list[float]] = field(default_factory=dict)
    indexed: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tissue: dict[str, float] = field(default_factory=lambda: {"tissue_um2": 0.0, "left_out_um2": 0.0})
    report: Path | None = None

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the wall time of the block to a phase."""
        started = perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + perf_counter() - started
