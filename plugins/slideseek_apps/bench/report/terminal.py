"""A report as text for a terminal: intervals under the numbers, the best marked."""

from __future__ import annotations

import io

from rich import box
from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text

from slideseek_apps.bench.report.assemble import Report
from slideseek_apps.bench.report.table import Entry, Number, Table

_GAP = 3
"""Columns of the terminal between two columns of a table."""


def render_terminal(report: Report, width: int, colour: bool = False) -> str:
    """Return the report as text, at most `width` columns wide where possible. colour: use colours of the terminal."""
    console = Console(file=io.StringIO(), width=width, force_terminal=colour, highlight=False)
    with console.capture() as drawn:
        console.print(report.title, style="bold", markup=False)
        for part in report.parts:
            console.print(f"\n{part.heading}", style="bold", markup=False)
            for name, value in part.facts.items():
                console.print(f"  {name}: {value}", style="dim", markup=False)
            for table in part.tables:
                if not table.appendix:
                    _print_table(console, table)
    return drawn.get()


def _print_table(console: Console, table: Table) -> None:
    console.print(f"\n{table.title}", markup=False)
    for columns in _that_fit(table, console.width):
        console.print(_drawn(table, columns))
    console.print(table.caption, style="dim", markup=False)
    for note in table.notes:
        console.print(f"note: {note}", markup=False)


def _drawn(table: Table, columns: list[int]) -> Drawn:
    """Draw some columns of a table, behind its heads."""
    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    for name in table.heads:
        drawn.add_column(name, justify="right" if name in ("n", "seeds") else "left", overflow="fold")
    group = ""
    for column in (table.columns[at] for at in columns):
        over = column.group if column.group != group else ""
        group = column.group
        drawn.add_column(f"{over}\n{column.name}" if table.groups else column.name, justify="right", overflow="fold")
    last = None
    for row in table.rows:
        if row.summary and last is not None and not last.summary:
            drawn.add_section()
        drawn.add_row(*(Text(head) for head in row.heads), *(_entry(row.entries[at]) for at in columns))
        last = row
    return drawn


def _that_fit(table: Table, width: int) -> list[list[int]]:
    """Share out the columns of a table over as many blocks as it takes for each to fit the terminal.

    A column squeezed to "91…" says nothing. A column that is too wide even alone stands alone, and is wrapped.
    """
    names = [max(len(name), *(len(row.heads[at]) for row in table.rows), 0) for at, name in enumerate(table.heads)]
    start = 2 + sum(one + _GAP for one in names)
    blocks: list[list[int]] = []
    used = width
    for at, column in enumerate(table.columns):
        lines = [line for row in table.rows for line in _entry(row.entries[at]).plain.split("\n")]
        takes = max(map(len, [column.name, column.group, *lines]))
        if not blocks or used + _GAP + takes > width:
            blocks.append([])
            used = start - _GAP
        blocks[-1].append(at)
        used += _GAP + takes
    return blocks or [[]]


def _entry(entry: Entry) -> Text:
    if not isinstance(entry, Number):
        return Text(entry)
    text = Text(f"{entry.text}*" if entry.best else entry.text, style="bold green" if entry.best else "")
    for more in (entry.deviation, entry.interval):
        if more:
            text.append(f"\n{more}", style="dim")
    return text
