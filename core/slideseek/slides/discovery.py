"""Find slides on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import openslide

from slideseek.errors import SlideError

SLIDE_SUFFIXES = frozenset(
    ".svs .tif .tiff .btf .ndpi .vms .vmu .scn .mrxs .svslide .bif .czi .dcm .png .jpg .jpeg".split()
)
"""File endings (lower case) taken for slides when a folder is searched; a file named outright needs none of them."""

_SERIES = "dicom.SeriesInstanceUID"


def find_slides(paths: Sequence[Path]) -> list[Path]:
    """Return the slides among files and folders.

    Files are taken as given, folders are searched with all their sub-folders in sorted order. Hidden and temporary files
    are passed over, links are followed but no folder is entered twice. The `.dcm` files of one DICOM series in one folder
    are one slide, named by the first of them. No slide is returned twice.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found.update(dict.fromkeys(_in_folder(path)))
        elif path.exists():
            found[path] = None
        else:
            raise SlideError(f"{path} does not exist", "check the path")
    return list(found)


def _in_folder(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(where)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = [Path(where, name) for name in sorted(names) if _is_slide_name(name)]
        yield from _one_per_series(files)


def _is_slide_name(name: str) -> bool:
    return not name.startswith((".", "~", "_tmp")) and Path(name).suffix.lower() in SLIDE_SUFFIXES


def _one_per_series(files: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, of every DICOM series only the first."""
    series: set[str] = set()
    for path in files:
        if path.suffix.lower() == ".dcm":
            uid = series_uid(path)
            if uid and uid in series:
                continue
            series.add(uid)
        yield path


def series_uid(path: Path) -> str:
    """Return the DICOM series a file belongs to, "" when OpenSlide cannot open it as a slide."""
    try:
        with openslide.OpenSlide(path) as slide:
            return slide.properties.get(_SERIES, "")
    except openslide.OpenSlideError:
        return ""
