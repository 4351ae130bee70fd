"""Keep the figures of every row, and write the page. Rows can be run one at a time: the others keep their figures."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reliability.row import Figure, Row
from reliability.rows import ROWS, load
from slideseek.version import __version__

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "reliability.md"
FIGURES = PAGE.with_suffix(".json")
"""The figures of the last long run of every row."""

INTRODUCTION = """# Reliability and security

    make reliability

Faults are caused on purpose, and everything that happens is counted. The rows can be run one at a time:
`python -m reliability ROW`. A short form of every row is part of the test suite.
"""


def keep(row: Row, figures: Sequence[Figure], seconds: float, partly: bool = False) -> None:
    """Store the figures of a row in place of its earlier ones. partly: other figures of the row stay."""
    stored = _stored()
    new = [{name: value for name, value in asdict(one).items() if name != "examples"} for one in figures]
    made = {"date": datetime.now(UTC).date().isoformat(), "slideseek": __version__, "python": platform.python_version()}
    made_now = {one["what"] for one in new}
    nothing: dict[str, Any] = {"figures": [], "seconds": 0}
    before: dict[str, Any] = stored.get(row.name, nothing) if partly else nothing
    kept = [one for one in before["figures"] if one["what"] not in made_now] + new
    seconds += before["seconds"]
    stored[row.name] = {"figures": kept, "seconds": round(seconds), **made}
    FIGURES.write_text(json.dumps(dict(sorted(stored.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_page() -> None:
    """Write the page from the stored figures."""
    stored = _stored()
    parts = [INTRODUCTION]
    for row in map(load, ROWS):
        if row.name in stored:
            kept = stored[row.name]
            figures = [Figure(**one) for one in kept["figures"]]
            parts.append(f"\n## {row.title}\n\nBar: {row.bar}.\n\n{markdown(figures)}")
            parts += [f"\nMissed, {one.what}: {one.missed}\n" for one in figures if not one.met]
            parts.append(f"\n`python -m reliability {row.name}`, {kept['date']}, {kept['seconds']:,} s.\n")
    PAGE.write_text("".join(parts), encoding="utf-8")


def markdown(figures: Sequence[Figure]) -> str:
    """Return figures as a table: what, trials, everything counted, and whether the bar is met."""
    lines = ["| what | trials | seen | bar |", "| --- | ---: | --- | --- |"]
    for one in figures:
        seen = ", ".join(f"{name}: {_shown(value)}" for name, value in one.seen.items())
        lines.append(f"| {one.what} | {one.trials:,} | {seen} | {'met' if one.met else '**missed**'} |")
    return "\n".join(lines) + "\n"


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _stored() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    return stored
