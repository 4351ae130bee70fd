"""A build's progress: a bar with counts and time left on a terminal, one line per slide elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Protocol, Self, cast

from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.spinner import Spinner
from rich.table import Column

from slideseek.building.reporting import Outcome, Reporter, SlideReport
from slideseek.cli.output import problem_line, say

OUTCOMES: tuple[Outcome, ...] = ("ok", "skipped", "failed")

MARGIN = 4
"""Columns left free beside the bar: the terminal's own `^C` must not wrap and push the bar onto a second line."""


class ClosingReporter(Reporter, Protocol):
    """A reporter that counts slides and tidies the screen when the build ends."""

    @property
    def counts(self) -> dict[Outcome, int]: ...

    def loading(self, what: str) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def make_reporter() -> ClosingReporter:
    """Return a bar if standard error is a terminal, else plain lines."""
    return BarReporter() if on_terminal() else LineReporter()


def on_terminal() -> bool:
    """Return whether standard error is a terminal; it may also be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a temporary bar that each call advances by one; nothing if standard error is not a terminal."""
    if not on_terminal():
        yield lambda _: None
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda _: progress.advance(task)


def shown_losses(metrics: Mapping[str, float]) -> str:
    """Format an epoch's losses on one line."""
    return "  ".join(f"{name} {value:.4g}" for name, value in metrics.items() if name not in ("epoch", "epochs"))


class _Tally:
    """Count slides by outcome: a slide that failed in any phase has failed, otherwise its first phase counts."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}

    @property
    def counts(self) -> dict[Outcome, int]:
        """Slides by outcome, over all phases so far."""
        found = Counter(self._outcomes.values())
        return {outcome: found[outcome] for outcome in OUTCOMES} | ({"known": found["known"]} if found["known"] else {})

    def _tally_skipped(self, slide_ids: Sequence[str]) -> None:
        for slide_id in slide_ids:
            self._outcomes.setdefault(slide_id, "skipped")

    def _tally(self, report: SlideReport) -> None:
        if report.outcome == "failed":
            self._outcomes[report.slide_id] = "failed"
        else:
            self._outcomes.setdefault(report.slide_id, report.outcome)


class _Steady:
    """Standard error that ignores write errors: a closed terminal must not stop a build."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Bars(Progress):
    """Stacked bars; before the first one, a spinner that shows what is being loaded."""

    spinner: Spinner | None = None

    def get_renderables(self) -> Iterator[RenderableType]:
        if self.spinner is not None:
            yield self.spinner
        if self.tasks:
            yield Constrain(self.make_tasks_table(self.tasks), max(1, self.console.width - MARGIN))


class BarReporter(_Tally):
    """Show a bar with the current slide, the ok/skipped/failed counts and the time left.

    The bar and the slide id share the remaining width: a long id is cut, counts and time never are.
    """

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self._console = console or Console(file=cast("IO[str]", _Steady(sys.stderr)))
        self._progress = _Bars(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", max_width=17)),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=6)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[counts]}"),
            TextColumn("left"),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("[dim]{task.fields[slide]}", table_column=Column(ratio=2, no_wrap=True, overflow="ellipsis")),
            console=self._console,
            expand=True,
        )
        self._task = TaskID(0)
        self._phase: Counter[Outcome] = Counter()
        self._fits: dict[str, TaskID] = {}

    def loading(self, what: str) -> None:
        self._progress.spinner = Spinner("dots", text=f"loading {what}")

    def phase(self, name: str, total: int, brief: bool = False) -> None:
        self._progress.spinner = None
        self._phase.clear()
        self._task = self._progress.add_task(name, total=total, counts=self._shown(), slide="")

    def skip(self, slide_ids: Sequence[str]) -> None:
        self._tally_skipped(slide_ids)
        self._phase["skipped"] += len(slide_ids)
        self._progress.update(self._task, advance=len(slide_ids), counts=self._shown())

    def begin(self, slide_id: str) -> None:
        self._progress.update(self._task, slide=escape(slide_id))

    def slide(self, report: SlideReport) -> None:
        self._tally(report)
        self._phase[report.outcome] += 1
        self._progress.update(self._task, advance=1, counts=self._shown(), slide="")
        if report.outcome == "known":
            self._print(f"known   {report.slide_id}: {report.cause}")
        if report.outcome == "failed":
            self._print(problem_line(report.slide_id, report.cause, report.fix))
        for note in report.notes:
            self._print(f"note    {report.slide_id}: {note}")

    def epoch(self, engine: str, metrics: Mapping[str, float]) -> None:
        if engine not in self._fits:
            total = metrics.get("epochs")
            self._fits[engine] = self._progress.add_task(f"fit {engine}", total=total, counts="", slide="")
        done = metrics.get("epoch", 0)
        training = done != metrics.get("epochs")  # hide a finished bar: a benchmark trains many times
        self._progress.update(self._fits[engine], completed=done, slide=shown_losses(metrics), visible=training)

    def note(self, text: str) -> None:
        self._print(f"note    {text}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _shown(self) -> str:
        return "  ".join(f"{self._phase[outcome]} {outcome}" for outcome in OUTCOMES)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.spinner = None
        self._progress.stop()


class LineReporter(_Tally):
    """Print one plain line per slide, for logs and pipes."""

    def __init__(self) -> None:
        super().__init__()
        self._name = ""
        self._total = 0
        self._count = 0
        self._brief = False

    def loading(self, what: str) -> None:
        say(f"loading {what}")

    def phase(self, name: str, total: int, brief: bool = False) -> None:
        self._name, self._total, self._count, self._brief = name, total, 0, brief

    def skip(self, slide_ids: Sequence[str]) -> None:
        self._tally_skipped(slide_ids)
        self._count += len(slide_ids)
        say(f"skipped {self._name} {self._count}/{self._total}  done before")

    def begin(self, slide_id: str) -> None:
        pass

    def slide(self, report: SlideReport) -> None:
        self._tally(report)
        self._count += 1
        where = f"{self._name} {self._count}/{self._total}"
        if report.outcome == "failed":
            say(problem_line(f"{where}  {report.slide_id}", report.cause, report.fix))
        elif report.outcome == "known":
            say(f"known   {where}  {report.slide_id}: {report.cause}")
        elif not self._brief:
            say(f"{report.outcome:<7} {where}  {report.slide_id}")
        elif self._count == self._total:
            say(f"done    {where}")
        for note in report.notes:
            say(f"note    {report.slide_id}: {note}")

    def epoch(self, engine: str, metrics: Mapping[str, float]) -> None:
        say(f"fit     {engine} epoch {metrics.get('epoch', 0):g}/{metrics.get('epochs', 0):g}  {shown_losses(metrics)}")

    def note(self, text: str) -> None:
        say(f"note    {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass
