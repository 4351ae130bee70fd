"""A build's progress: a bar with counts and time left on a terminal, one line a slide elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from slideseek.building.reporting import Reporter, SlideReport
from slideseek.cli.output import say, say_problem


class ClosingReporter(Reporter, Protocol):
    """A reporter that tidies the screen when the build ends."""

    def __enter__(self) -> ClosingReporter: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_reporter() -> ClosingReporter:
    """Return the reporter that fits where standard error goes."""
    return BarReporter() if sys.stderr.isatty() else LineReporter()


def shown_losses(metrics: Mapping[str, float]) -> str:
    """Return an epoch's losses in a few words."""
    return "  ".join(f"{name} {value:.4g}" for name, value in metrics.items() if name not in ("epoch", "epochs"))


class BarReporter:
    """Show a bar with the slide at work, ok/skipped/failed counts and the time left."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[slide]}"),
            console=self._console,
        )
        self._task = TaskID(0)
        self._counts = {"ok": 0, "skipped": 0, "failed": 0}
        self._fits: dict[str, TaskID] = {}

    def phase(self, name: str, total: int, brief: bool = False) -> None:
        self._counts = {"ok": 0, "skipped": 0, "failed": 0}
        self._task = self._progress.add_task(name, total=total, counts=self._shown(), slide="")

    def begin(self, slide_id: str) -> None:
        self._progress.update(self._task, slide=slide_id)

    def slide(self, report: SlideReport) -> None:
        self._counts[report.outcome] += 1
        self._progress.update(self._task, advance=1, counts=self._shown(), slide="")
        if report.outcome == "failed":
            self._print(f"failed  {report.slide_id}: {report.cause}" + (f" -> {report.fix}" if report.fix else ""))
        for note in report.notes:
            self._print(f"note    {report.slide_id}: {note}")

    def epoch(self, engine: str, metrics: Mapping[str, float]) -> None:
        if engine not in self._fits:
            total = metrics.get("epochs")
            self._fits[engine] = self._progress.add_task(f"fit {engine}", total=total, counts="", slide="")
        self._progress.update(self._fits[engine], completed=metrics.get("epoch", 0), counts=shown_losses(metrics))

    def note(self, text: str) -> None:
        self._print(f"note    {text}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _shown(self) -> str:
        return "  ".join(f"{count} {name}" for name, count in self._counts.items())

    def __enter__(self) -> BarReporter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class LineReporter:
    """Print one plain line a slide, for logs and pipes."""

    def __init__(self) -> None:
        self._name = ""
        self._total = 0
        self._count = 0
        self._brief = False

    def phase(self, name: str, total: int, brief: bool = False) -> None:
        self._name, self._total, self._count, self._brief = name, total, 0, brief

    def begin(self, slide_id: str) -> None:
        pass

    def slide(self, report: SlideReport) -> None:
        self._count += 1
        where = f"{self._name} {self._count}/{self._total}"
        if report.outcome == "failed":
            say_problem(f"{where}  {report.slide_id}", report.cause, report.fix)
        elif not self._brief:
            say(f"{report.outcome:<7} {where}  {report.slide_id}")
        elif self._count == self._total:
            say(f"done    {where}")
        for note in report.notes:
            say(f"note    {report.slide_id}: {note}")

    def epoch(self, engine: str, metrics: Mapping[str, float]) -> None:
        say(f"fit     {engine} epoch {metrics.get('epoch', 0):g}/{metrics.get('epochs', 0):g}  {shown_losses(metrics)}")

    def note(self, text: str) -> None:
        click.echo(f"note    {text}", err=True)

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass
