"""Write the slides of the demo and their manifest."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path

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
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for record in (slide.record for slide in slides):
            writer.writerow([record.id, record.path, record.patient, record.site, record.label, record.center])
    temporary.replace(manifest)
    return manifest
