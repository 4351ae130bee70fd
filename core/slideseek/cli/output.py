"""What people and programs read: tables, JSON, CSV, and the lines besides them."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import click


def print_json(value: Any) -> None:
    """Print plain data as indented JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV with a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    click.echo(text.getvalue(), nl=False)


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = (), whole: Sequence[int] = ()
) -> None:
    """Print a table for people; `right` lists the columns of numbers, `whole` those whose cells are not broken.

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
    if not console.is_terminal:  # a pipe has no width: do not fold what a program may read
        console = Console(width=max(console.width, 200))
    with console.capture() as drawn:  # echoed like all else: rich ends the program when a reader has gone
        console.print(table)
    click.echo(drawn.get(), nl=False)


def say(text: str) -> None:
    """Tell something besides the result, on standard error. A log that cannot be written does not stop the work."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def say_problem(subject: str, cause: str, fix: str) -> None:
    """Tell one thing that failed, on standard error."""
    say(problem_line(subject, cause, fix))


def problem_line(subject: str, cause: str, fix: str) -> str:
    """Return one thing that failed as one line: what, why, and what to do."""
    return f"failed  {subject}: {cause}" + (f" -> {fix}" if fix else "")
