"""An archive of mixed sizes: whole slides of the shared atlas, cuts of them as small as a biopsy, and painted slides.

The largest slides have about a hundred times the tissue of the smallest. Cuts keep the patient of their slide, so they
never find it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

from slideseek.api import create_archive, open_archive
from slideseek.archive.adding import add_slides
from slideseek.archive.archive import Archive
from slideseek.archive.manifest import read_manifest
from slideseek.cli.output import csv_text
from slideseek.slides.discovery import find_slides
from slideseek.slides.reader import open_slide
from slideseek.types import UInt8
from slideseek_apps.demo.histology import COLUMNS, demo_slides, paint, write_slide
from slideseek_components.selectors.mosaic import Mosaic

CUTS_MM = (0.3, 0.45, 0.8, 1.6)
"""Sides of the squares that are cut out of every slide of the atlas, where it has most tissue."""

SIDES = (512, 640, 768, 1024, 1536, 2048)
"""Sides of the painted slides in pixels of 0.5 µm, in turns."""

ATLAS = "slides-atlas"


@dataclass(frozen=True)
class Row:
    """A row of the manifest."""

    slide_id: str
    filename: str
    patient: str
    site: str
    diagnosis: str


def atlas_rows(data: Path) -> list[Row]:
    """Return the manifest of the shared slides."""
    with (data / ATLAS / "slides.csv").open(newline="", encoding="utf-8") as file:
        return [
            Row(row["slide_id"], row["file"], row["patient_id"], row["site"], row["diagnosis"])
            for row in csv.DictReader(file)
        ]


def write_mixed(folder: Path, data: Path) -> Path:
    """Write the slides and their manifest to `folder`, and return the manifest's path; slides that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [*_cut_rows(folder, data), *_painted_rows(folder)]
    manifest = folder / "manifest.csv"
    cells = [(row.slide_id, row.filename, row.patient, row.site, row.diagnosis, "") for row in rows]
    manifest.write_text(csv_text(COLUMNS, cells), encoding="utf-8")
    return manifest


def _cut_rows(folder: Path, data: Path) -> Iterator[Row]:
    """Write the slides of the atlas and the cuts of them."""
    for row in atlas_rows(data):
        whole = folder / row.filename
        if not whole.exists():
            whole.symlink_to((data / ATLAS / row.filename).resolve())
        yield row
        for side in CUTS_MM:
            name = f"{row.slide_id}-{round(1000 * side)}um"
            if not (folder / f"{name}.svs").exists():
                write_slide(folder / f"{name}.svs", *_cut(whole, side))
            yield Row(name, f"{name}.svs", row.patient, row.site, row.diagnosis)


def _cut(path: Path, side: float) -> tuple[UInt8, float]:
    """Return the square of `side` mm with most tissue, RGB, and its µm per pixel."""
    with open_slide(path) as slide:
        thumbnail = slide.thumbnail(512)
        mask = Mosaic().find_tissue(slide, thumbnail)
        scale = thumbnail.shape[1] / slide.dimensions[0]
        pixels = round(1000 * side / slide.mpp)
        density = ndimage.uniform_filter(mask.astype(np.float64), max(1, round(pixels * scale)), mode="constant")
        row, column = np.unravel_index(int(density.argmax()), density.shape)
        corner = [
            int(np.clip(centre / scale - pixels / 2, 0, length - pixels))
            for centre, length in zip((column, row), slide.dimensions)
        ]
        return slide.read((corner[0], corner[1]), pixels, slide.mpp), slide.mpp


def _painted_rows(folder: Path) -> Iterator[Row]:
    """Write the painted slides."""
    for number, slide in enumerate(demo_slides(len(SIDES))):
        record = slide.record
        if not (folder / record.path).exists():
            write_slide(folder / record.path, paint(slide, SIDES[number % len(SIDES)]))
        yield Row(record.id, record.path, record.patient, record.site, record.label)


def built(root: Path, manifest: Path, config: str) -> None:
    """Make an archive of the manifest's slides with this configuration and build it, or what is missing of it."""
    if not root.exists():
        create_archive(root, config).close()
        with Archive(root) as archive, archive.writing():
            add_slides(archive, find_slides([manifest.parent]), (manifest, read_manifest(manifest)))
    with open_archive(root) as opened:
        opened.build()
