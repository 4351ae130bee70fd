"""The report of one run: a Markdown page with what was done, what failed, why, and how to fix it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.files import write_text
from slideseek.building.reporting import BuildSummary
from slideseek.engine import Engine

FOLDER = "runs"


def write_run_report(
    archive: Archive, run: int, outcome: str, summary: BuildSummary, engines: Sequence[Engine], notes: Sequence[str]
) -> Path:
    """Write `runs/<number>/report.md` below the archive's folder and return its path."""
    path = archive.root / FOLDER / f"{run:05d}" / "report.md"
    write_text(path, render_run_report(archive, run, outcome, summary, engines, notes))
    return path


def render_run_report(
    archive: Archive, run: int, outcome: str, summary: BuildSummary, engines: Sequence[Engine], notes: Sequence[str]
) -> str:
    """Return the page: counts, failures with cause and fix, unreadable regions, times, engines."""
    record = next(r for r in archive.catalog.runs() if r["id"] == run)
    counts = {name: summary.counts.get(name, 0) for name in ("ok", "skipped", "failed")}
    lines = [
        f"# Build {run} of {archive.root.name}",
        "",
        f"Started {record['started']}, ended {record['finished'] or 'now'}: **{outcome}**.",
        f"{counts['ok']} slides ok, {counts['skipped']} skipped (done before), {counts['failed']} failed.",
        "",
    ]
    if summary.failures:
        lines += ["## Failed slides", ""]
        rows = [[r.slide_id, r.cause, r.fix] for _, r in sorted(summary.failures.items())]
        lines += [*_table(("slide", "cause", "fix"), rows), ""]
    damaged = [
        [r.slide_id, r.stage, str(r.unreadable), str(r.filled)]
        for r in archive.catalog.unreadable({engine.feature_digest for engine in engines})
    ]
    if damaged:
        lines += ["## Slides with unreadable regions", ""]
        lines += [*_table(("slide", "stage", "regions unreadable", "pixels filled"), damaged), ""]
    if found := summary.tissue["tissue_um2"]:
        left = summary.tissue["left_out_um2"]
        lines += ["## Tissue", "", f"{found:,.0f} µm² found, {left:,.0f} µm² ({left / found:.0%}) in no patch.", ""]
    if notes:
        lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    lines += ["## Time", "", *_times(summary.seconds, summary.stage_seconds), "", "## Engines", ""]
    for engine in engines:
        lines.append(f"- `{engine.name}`: {engine.spec}, {summary.indexed.get(engine.name, 0)} slides indexed")
        for kind, chosen in engine.resolved.settings.items():
            options = ", ".join(f"{name} = {value}" for name, value in chosen.items() if name != "use")
            lines.append(f"    - {kind} `{chosen['use']}`" + (f": {options}" if options else ""))
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return "\n".join([*lines, "", f"Made with {versions}.", ""])


def _times(phases: Mapping[str, float], stages: Mapping[str, Sequence[float]]) -> list[str]:
    rows = [[f"{name} (all slides)", f"{seconds:.2f}"] for name, seconds in phases.items()]
    rows += [[f"{name} (median per slide)", f"{statistics.median(times):.3f}"] for name, times in stages.items()]
    return _table(("step", "seconds"), rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(header), line(["---"] * len(header)), *(line(row) for row in rows)]
