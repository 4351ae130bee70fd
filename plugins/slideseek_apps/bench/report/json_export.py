"""A report as JSON, for programs: the same tables, numbers in full."""

from __future__ import annotations

import json
import math
from typing import Any

from slideseek_apps.bench.report.assemble import Report
from slideseek_apps.bench.report.table import Entry, Number, Table


def render_json(report: Report) -> str:
    """Return the report as indented JSON; an unknown number is null."""
    data = {
        "title": report.title,
        "facts": dict(report.facts),
        "sections": [
            {
                "heading": part.heading,
                "facts": dict(part.facts),
                "tables": [_table(table) for table in part.tables],
                "figures": [{"key": f.key, "title": f.title, "caption": f.caption} for f in part.figures],
            }
            for part in report.parts
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _table(table: Table) -> dict[str, Any]:
    return {
        "key": table.key,
        "title": table.title,
        "caption": table.caption,
        "notes": list(table.notes),
        "columns": [{"name": column.name, "group": column.group} for column in table.columns],
        "rows": [
            {
                **dict(zip(table.heads, row.heads)),
                "summary": row.summary,
                "entries": [_entry(entry) for entry in row.entries],
            }
            for row in table.rows
        ],
    }


def _entry(entry: Entry) -> Any:
    if not isinstance(entry, Number):
        return entry
    numbers = {"value": entry.value, "low": entry.low, "high": entry.high, "spread": entry.spread}
    known = {name: None if value is None or math.isnan(value) else value for name, value in numbers.items()}
    return {**known, "best": entry.best}
