"""A report as LaTeX tables in the style of booktabs, to paste into a paper."""

from __future__ import annotations

import re
from itertools import pairwise

from slideseek_apps.bench.report.assemble import Report
from slideseek_apps.bench.report.table import Entry, Number, Row, Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "–": "--",
    "µ": r"\textmu{}",
}


STACKED_FROM = 6
"""Columns from which intervals stand below their numbers."""


def render_latex(report: Report) -> str:
    """Return one `table*` per table. The document needs `\\usepackage{booktabs,graphicx}` and nothing else.

    A table that is wider than the page is scaled down to it.
    """
    blocks = [f"% {_comment(report.title)}", "% needs \\usepackage{booktabs,graphicx}"]
    for part in report.parts:
        blocks.append(f"% {_comment(part.heading)}")
        blocks += [_table(table, part.heading) for table in part.tables if not table.appendix]
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Return text with all LaTeX commands escaped."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def _table(table: Table, heading: str) -> str:
    leading = len(table.heads)
    right = [name in ("n", "seeds") for name in table.heads]
    spec = "".join("r" if numeric else "l" for numeric in right) + "r" * len(table.columns)
    lines = [
        r"\begin{table*}",
        r"\centering\scriptsize",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{@{{}}{spec}@{{}}}}",
        r"\toprule",
        *_groups(table, leading),
        _row([*table.heads, *(column.name for column in table.columns)]),
        r"\midrule",
    ]
    stacked = len(table.columns) >= STACKED_FROM
    for before, row in pairwise([None, *table.rows]):
        if row is None:
            continue
        if before is not None:
            lines += _rule_between(before, row, leading)
        repeated = before is not None and leading > 2 and not row.summary and before.heads[0] == row.heads[0]
        heads = ("", *row.heads[1:]) if repeated else row.heads
        lines.append(_row(list(heads), [_entry(entry, stacked) for entry in row.entries]))
    notes = "".join(f" {note}." for note in table.notes)
    label = re.sub(r"[^a-z0-9]+", "-", f"{heading} {table.key}".lower()).strip("-")
    lines += [
        r"\bottomrule",
        r"\end{tabular}}",
        rf"\caption{{{escape(f'{heading}. {table.title}. {table.caption}{notes}')}}}",
        rf"\label{{tab:{label}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines)


def _groups(table: Table, leading: int) -> list[str]:
    """Return the line of headings over groups of columns, with a rule under each."""
    if not table.groups:
        return []
    cells, rules, place = [""] * leading, [], leading + 1
    for name, span in table.groups:
        cells.append(rf"\multicolumn{{{span}}}{{c}}{{{escape(name)}}}")
        if name:
            rules.append(rf"\cmidrule(lr){{{place}-{place + span - 1}}}")
        place += span
    return [" & ".join(cells) + r" \\", "".join(rules)]


def _rule_between(before: Row, row: Row, leading: int) -> list[str]:
    if row.summary and not before.summary:
        return [r"\midrule"]
    if leading > 2 and not row.summary and before.heads[0] != row.heads[0]:
        return [r"\addlinespace"]
    return []


def _row(texts: list[str], finished: list[str] | None = None) -> str:
    return " & ".join([*(escape(text) for text in texts), *(finished or [])]) + r" \\"


def _entry(entry: Entry, stacked: bool) -> str:
    """Return a cell. stacked: the interval stands below its number, as a page does it for wide tables."""
    if not isinstance(entry, Number):
        return escape(entry)
    value = escape(entry.text)
    shown = rf"\textbf{{{value}}}" if entry.best else value
    rest = " ".join(part for part in (entry.deviation, entry.interval) if part)
    if rest and stacked:
        return rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{shown}\\[-2pt]{{\tiny {escape(rest)}}}\end{{tabular}}"
    return rf"{shown} {{\tiny {escape(rest)}}}" if rest else shown


def _comment(text: str) -> str:
    return " ".join(text.split())
