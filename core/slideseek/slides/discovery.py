"""Find slides on disk: files as named, folders with everything in them, a slide of several files as one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import openslide

from slideseek.errors import SlideError

SLIDE_SUFFIXES = frozenset(
    (
        *(".svs", ".tif", ".tiff", ".btf", ".tf8", ".ndpi", ".vms", ".vmu", ".scn", ".mrxs", ".svslide", ".bif"),
        *(".czi", ".dcm", ".png", ".jpg", ".jpeg"),
    )
)
"""Endings (lower case) of what is taken for a slide when a folder is searched; a file named outright needs none."""

_HIDDEN = (".", "~", "#")
_TEMPORARY = ("~", ".part", ".partial", ".tmp", ".crdownload", ".filepart")
_HAMAMATSU = (".vms", ".vmu")

PICTURE_SUFFIX = ".inspect.png"
"""Ending of the pictures that slideseek draws of slides: no slides themselves."""

_SERIES = "dicom.SeriesInstanceUID"


def find_slides(paths: Sequence[Path]) -> list[Path]:
    """Return the slides among files and folders, none twice.

    Files are taken as given. Folders are searched with all their sub-folders, in sorted order; hidden files, temporary
    files and the pictures of `slideseek inspect` are passed over, links are followed, and no folder is entered twice,
    so that a loop of links ends. The `.dcm` files of one DICOM series in one folder are one slide, named by the first
    of them; the folder of a MIRAX slide and the images of a Hamamatsu VMS slide are no slides of their own.
    """
    found: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            slides = list(_in_folder(path))
        elif path.exists():
            slides = [path]
        else:
            raise SlideError(f"{path} does not exist", "check the path")
        for slide in slides:
            found.setdefault(os.path.realpath(slide), slide)
    return list(found.values())


def slide_files(path: Path) -> list[Path]:
    """Return the files a slide is made of, in an order that does not depend on where they lie."""
    suffix = path.suffix.lower()
    if suffix == ".dcm":
        uid = _series_uid(path)
        siblings = sorted(file for file in path.parent.iterdir() if _is_dicom(file) and _is_slide_name(file.name))
        return [file for file in siblings if uid and _series_uid(file) == uid] or [path]
    folder = path.with_suffix("")
    if suffix == ".mrxs" and folder.is_dir():
        return [path, *sorted(file for file in folder.rglob("*") if file.is_file())]
    if suffix in _HAMAMATSU:
        return sorted(file for file in path.parent.iterdir() if file.is_file() and file.name.startswith(path.stem))
    return [path]


def _in_folder(folder: Path) -> Iterator[Path]:
    """Walk a folder from the top and yield its slides."""
    seen: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(where)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        mirax = {Path(name).stem for name in names if name.lower().endswith(".mrxs")}
        folders[:] = sorted(name for name in folders if not name.startswith(_HIDDEN) and name not in mirax)
        hamamatsu = tuple(Path(name).stem for name in names if name.lower().endswith(_HAMAMATSU))
        slides = [name for name in sorted(names) if _is_slide_name(name) and not _is_part(name, hamamatsu)]
        yield from _one_per_series([Path(where, name) for name in slides])


def _is_slide_name(name: str) -> bool:
    lower = name.lower()
    return (
        not lower.startswith(_HIDDEN)
        and not lower.endswith((*_TEMPORARY, PICTURE_SUFFIX))
        and Path(lower).suffix in SLIDE_SUFFIXES
    )


def _is_part(name: str, stems: tuple[str, ...]) -> bool:
    """Tell whether a file is an image that belongs to one of the Hamamatsu slides named by their stems."""
    return name.startswith(stems) and not name.lower().endswith(_HAMAMATSU)


def _one_per_series(files: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of one folder, of every DICOM series only the first; what is no slide is left to the reader."""
    known: set[str] = set()
    for path in files:
        uid = _series_uid(path) if _is_dicom(path) else ""
        if uid not in known:
            yield path
        if uid:
            known.add(uid)


def _is_dicom(path: Path) -> bool:
    return path.suffix.lower() == ".dcm"


def _series_uid(path: Path) -> str:
    """Return the DICOM series of a file, "" when OpenSlide cannot open it as part of a slide."""
    try:
        with openslide.OpenSlide(path) as slide:
            return slide.properties.get(_SERIES, "")
    except openslide.OpenSlideError:
        return ""
