"""Write the slides of the demo and their manifest."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from slideseek.cli.output import csv_text
from slideseek_apps.demo.histology.plan import demo_slides, paint
from slideseek_apps.demo.histology.pyramid import write_slide

COLUMNS = ("slide_id", "filename", "case_id", "primary_site", "diagnosis", "center")


def write_demo(
    folder: Path | str,
    patients: int = 6,
    seed: int = 0,
    side: int = 2048,
    on_slide: Callable[[str], None] | None = None,
) -> Path:
    """Write the slides and `manifest.csv` to `folder`, which is created if needed, and return the manifest's path.

    on_slide: called with the id of each slide once it is written.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    slides = demo_slides(patients, seed)
    for slide in slides:
        write_slide(target / slide.record.path, paint(slide, side))
        if on_slide is not None:
            on_slide(slide.record.id)
    manifest = target / "manifest.csv"
    temporary = target / f".manifest.csv.{os.getpid()}.tmp"
    records = [slide.record for slide in slides]
    rows = [(one.id, one.path, one.patient, one.site, one.label, one.center) for one in records]
    temporary.write_text(csv_text(COLUMNS, rows), encoding="utf-8")
    temporary.replace(manifest)
    return manifest
