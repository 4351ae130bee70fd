"""Export the slides of an archive as CSV or Parquet: their metadata, and their state in each engine."""

from __future__ import annotations

from slideseek.archive.archive import Archive
from slideseek.indexing.status import archive_status
from slideseek.types import SlideRecord
from slideseek_apps.interchange.export_output import Destination, ExportSummary, SlideChoice
from slideseek_apps.interchange.tables import write_table

HEADINGS = ("slide_id", "path", "case_id", "primary_site", "diagnosis", "center", "mpp", "contours")
"""Headings of a manifest, so the table with real ids can be used as one."""

PATHS = (HEADINGS.index("path"), HEADINGS.index("contours"), -2, -1)
"""Places of columns with paths, or with messages that may have one: a shareable table is without them."""


def export_table(
    archive: Archive, engine: str | None, choice: SlideChoice, destination: Destination, suffix: str = "csv"
) -> ExportSummary:
    """Write one row per slide, as `.csv` or `.parquet`. engine: the one whose state to include, None for all."""
    summary, sharing = ExportSummary(), destination.sharing
    status = archive_status(archive)
    engines = [found["name"] for found in status["engines"] if engine in (None, found["name"])]
    states = {slide["id"]: slide for slide in status["slides"]}
    records = [sharing.record(row.record) for row in choice.rows]
    free = sorted({name for record in records for name in record.columns})
    (path,) = destination.claim([f"slides.{suffix}"])
    names = [*HEADINGS, *free, *(f"state of {name}" for name in engines), "cause", "fix"]
    hidden = {at % len(names) for at in PATHS} if sharing.shareable else set()
    values = []
    for row, record in zip(choice.rows, records):
        state = states[row.id]
        failure = state["failure"] or {"cause": "", "fix": ""}
        stands = [*(state["engines"][name]["state"] for name in engines), failure["cause"], failure["fix"]]
        values.append([*_known(archive, record), *(str(record.columns.get(name, "")) for name in free), *stands])
    write_table(path, {name: [one[i] for one in values] for i, name in enumerate(names) if i not in hidden})
    summary.wrote(path, *(record.id for record in records))
    return summary


def _known(archive: Archive, record: SlideRecord) -> list[str]:
    """Return the values under `HEADINGS`. Paths are absolute: a manifest's relative paths start at its own folder."""
    contours = str(archive.root / record.contours) if record.contours else ""
    path = str(archive.slide_path(record))
    mpp = "" if record.mpp is None else repr(record.mpp)
    return [record.id, path, record.patient, record.site, record.label, record.center, mpp, contours]
