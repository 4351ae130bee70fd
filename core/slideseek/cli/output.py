"""What people and programs read: tables, JSON, CSV, and the two styles of a failed line."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click


def print_json(value: Any) -> None:
    """Print plain data as indented JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV with a heading."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    right: Sequence[int] = (),
) -> None:
    """Print a table for people; `right` lists the columns of numbers. Cells are text, never markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(header):
        table.add_column(name, justify="right" if position in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:  # a pipe has no width: do not fold what a program may read
        console = Console(width=max(console.width, 200))
    console.print(table)


def say(text: str) -> None:
    """Tell something besides the result, on standard error."""
    click.echo(text, err=True)


def say_problem(subject: str, cause: str, fix: str) -> None:
    """Tell one thing that failed, in one line: what, why, and what to do."""
    say(f"failed  {subject}: {cause}" + (f" -> {fix}" if fix else ""))
