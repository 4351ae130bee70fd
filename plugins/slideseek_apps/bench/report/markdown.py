"""A report as Markdown: tables with the best in bold; figures are listed by title, since Markdown cannot hold them."""

from __future__ import annotations

from collections.abc import Mapping

from slideseek_apps.bench.report.assemble import Report
from slideseek_apps.bench.report.table import Entry, Number, Table


def render_markdown(report: Report) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    blocks = [f"# {_escape(report.title)}", _facts(report.facts)]
    number = 0
    for part in report.parts:
        blocks += [f"## {_escape(part.heading)}", _facts(part.facts)]
        for table in part.tables:
            number += 1
            blocks += [f"### Table {number}. {_escape(table.title)}", _table(table), _escape(table.caption)]
            blocks += [f"Note: {_escape(note)}." for note in table.notes]
        if part.figures:
            names = "; ".join(figure.title for figure in part.figures)
            blocks.append(f"Figures, in the HTML page and as SVG files: {_escape(names)}.")
    return "\n\n".join(block for block in blocks if block) + "\n"


def _facts(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {_escape(value)}" for name, value in facts.items())


def _table(table: Table) -> str:
    names = [f"{column.group}: {column.name}" if column.group else column.name for column in table.columns]
    lines = [
        _line([*table.heads, *names]),
        _line(["---"] * len(table.heads) + ["---:"] * len(names)),
    ]
    lines += [_line([*row.heads, *(_entry(entry) for entry in row.entries)], bold=row.summary) for row in table.rows]
    return "\n".join(lines)


def _entry(entry: Entry) -> str:
    if not isinstance(entry, Number):
        return entry
    rest = " ".join(part for part in (entry.deviation, entry.interval) if part)
    return f"**{entry.text}** {rest}".strip() if entry.best else entry.full


def _line(cells: list[str], bold: bool = False) -> str:
    shown = [_escape(cell) for cell in cells]
    if bold:
        shown[0] = f"*{shown[0]}*" if shown[0] else ""
    return "| " + " | ".join(shown) + " |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
