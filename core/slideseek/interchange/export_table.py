"""Write the slides of an archive as a CSV: what is known of them, and how each engine stands."""

from __future__ import annotations

import csv

from slideseek.archive.archive import Archive
from slideseek.archive.files import replacing
from slideseek.interchange.destination import Choice, Destination, ExportSummary
from slideseek.status import archive_status

NAME = "slides.csv"
COLUMNS = {
    "slide_id": "id",
    "path": "path",
    "case_id": "patient",
    "primary_site": "site",
    "diagnosis": "label",
    "center": "center",
    "mpp": "mpp",
}
"""Headings a manifest is known by, so that the table can be one, and what each holds."""


def export_table(archive: Archive, engine: str | None, choice: Choice, destination: Destination) -> ExportSummary:
    """Write one row a slide; engine: the one to tell of, all when None."""
    summary = ExportSummary()
    status = archive_status(archive)
    engines = [found["name"] for found in status["engines"] if engine in (None, found["name"])]
    wanted = {row.id for row in choice.rows}
    slides = [slide for slide in status["slides"] if slide["id"] in wanted]
    free = sorted({name for slide in slides for name in slide["fields"]})
    (path,) = destination.claim([NAME])
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*COLUMNS, *free, *(f"state of {name}" for name in engines), "cause", "fix"])
        for slide in slides:
            known = ["" if slide[name] is None else slide[name] for name in COLUMNS.values()]
            states = [slide["engines"][name]["state"] for name in engines]
            failure = slide["failure"] or {"cause": "", "fix": ""}
            writer.writerow(
                [*known, *(slide["fields"].get(name, "") for name in free), *states, failure["cause"], failure["fix"]]
            )
    summary.wrote(path, *(slide["id"] for slide in slides))
    return summary
