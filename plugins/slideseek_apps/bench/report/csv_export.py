"""A report as CSV: one long table with one row per number, for spreadsheets and statistics programs."""

from __future__ import annotations

from typing import Any

from slideseek.cli.output import csv_text
from slideseek_apps.bench.report.assemble import Report
from slideseek_apps.bench.report.table import Number

HEADER = ("section", "table", "row", "summary", "group", "column", "value", "low", "high", "spread", "best", "text")


def render_csv(report: Report) -> str:
    """Return every entry of every table; `row` joins the leading cells of its row with ' / '."""
    rows: list[tuple[Any, ...]] = []
    for part in report.parts:
        for table in part.tables:
            for row in table.rows:
                name = " / ".join(head for head in row.heads if head)
                for column, entry in zip(table.columns, row.entries):
                    where = (part.heading, table.key, name, int(row.summary), column.group, column.name)
                    if isinstance(entry, Number):
                        numbers = (entry.value, entry.low, entry.high, entry.spread, int(entry.best))
                        rows.append((*where, *numbers, entry.text))
                    else:
                        rows.append((*where, "", "", "", "", 0, entry))
    return csv_text(HEADER, rows)
