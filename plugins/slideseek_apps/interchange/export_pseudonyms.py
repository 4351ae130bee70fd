"""Export which slide and patient each pseudonym of an archive stands for, for use in the house."""

from __future__ import annotations

from slideseek.archive.archive import Archive
from slideseek_apps.interchange.export_output import Destination, ExportSummary, SlideChoice
from slideseek_apps.interchange.tables import write_table
from slideseek_apps.reports.sharing import Sharing

NAME = "pseudonyms.csv"
HEADINGS = ("pseudonym", "slide_id", "case_pseudonym", "case_id", "center_pseudonym", "center")


def export_pseudonyms(archive: Archive, choice: SlideChoice, destination: Destination) -> ExportSummary:
    """Write one row per slide: its pseudonyms and what they stand for."""
    summary, sharing = ExportSummary(), Sharing.of(archive, identified=False)
    (path,) = destination.claim([NAME])
    rows = []
    for row in choice.rows:
        real, shown = row.record, sharing.record(row.record)
        rows.append([shown.id, real.id, shown.patient, real.patient, shown.center, real.center])
    write_table(path, {name: [row[at] for row in rows] for at, name in enumerate(HEADINGS)})
    summary.wrote(path, *(row.id for row in choice.rows))
    return summary
