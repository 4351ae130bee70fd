"""Output of the commands: answers, tables, JSON and CSV on standard output; notes on standard error."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from slideseek.searching.calibration import Calibration
    from slideseek.searching.searcher import Answer


def print_json(value: Any) -> None:
    """Print plain data as indented JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


_CONTROL = "\x00-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_UNSAFE = re.compile(rf"(?![+-]?[\d.]+(e[+-]?\d+)?$)\s*[-=+@'\uff0b\uff0d\uff1d\uff20]|.*[{_CONTROL}]", re.I | re.S)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV with a header line, with no cell that a spreadsheet or terminal would execute.

    Text that begins like a formula or has control characters is written as ' and its JSON escapes; numbers stay.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_safe(cell) for cell in row] for row in (header, *rows))
    return text.getvalue()


def _safe(cell: Any) -> Any:
    if not isinstance(cell, str) or not _UNSAFE.match(cell):
        return cell
    return "'" + re.sub(rf"[\\{_CONTROL}]", lambda found: f"\\u{ord(found[0]):04x}", cell)


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = (), whole: Sequence[int] = ()
) -> None:
    """Print a table; `right` lists the right-aligned columns, `whole` those whose cells are not wrapped.

    Cells are text, never markup.
    """
    from rich import box
    from rich.console import Console, JustifyMethod
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(header):
        justify: JustifyMethod = "right" if position in right else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=position in whole)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:  # a pipe has no width: do not wrap what a program may read
        console = Console(width=max(console.width, 200))
    with console.capture() as drawn:  # printed with click: rich would exit the program when the pipe is closed
        console.print(table)
    click.echo(drawn.get(), nl=False)


def print_answer(answer: Answer, calibration: Mapping[str, Calibration] | None = None) -> None:
    """Print an answer as text."""
    about = ", ".join(part for part in (answer.query.site, answer.query.label) if part)
    scope = f"slides of {answer.query.site}" if answer.mode == "vertical" else "the archive"
    title = f"{answer.query.id}{f' ({about})' if about else ''} - nearest in {scope}, engine {answer.engine}"
    rows = [
        [str(f.rank), f.hit.slide_id, f"{f.hit.distance:.6g}", f.record.site, f.record.label, f.record.patient]
        for f in answer.found
    ]
    click.echo(title)
    print_table(("rank", "slide", "distance", "site", "diagnosis", "patient"), rows, right=(0, 2))
    if not rows:
        click.echo("no slide passes the filters" if not answer.candidates else "no hits")
    for name, vote in answer.votes.items():
        what = "diagnosis" if name == "label" else name
        known = f", {vote.labelled} with a {what}" if vote.labelled < vote.hits else ""
        click.echo(
            f"vote for {what}: {vote.value} ({vote.agreeing} of {vote.hits}{known}; confidence {vote.confidence:.2f})"
        )
        if calibration is not None:
            right, searched = calibration[name].at(vote.confidence)
            share = f" ({right / searched:.0%})" if searched else ""
            click.echo(f"  {searched} slide(s) of the archive had that confidence; {right} had the right vote{share}")
    click.echo(f"{answer.candidates} candidates searched in {answer.milliseconds:.1f} ms")


def say(text: str) -> None:
    """Print a line to standard error. If it cannot be written, the work goes on."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def say_problem(subject: str, cause: str, fix: str) -> None:
    """Report one failure on standard error."""
    say(problem_line(subject, cause, fix))


def problem_line(subject: str, cause: str, fix: str) -> str:
    """Format one failure as one line: subject, cause and fix."""
    return f"failed  {subject}: {cause}" + (f" -> {fix}" if fix else "")
