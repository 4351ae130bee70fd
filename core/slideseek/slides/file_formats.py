"""Which files are slides, and which files make up one slide: MIRAX folders, Hamamatsu VMS, DICOM series."""

from __future__ import annotations

from pathlib import Path

import openslide

from slideseek.slides.remote_path import RemotePath

SLIDE_SUFFIXES = frozenset(
    (
        *(".svs", ".tif", ".tiff", ".btf", ".tf8", ".ndpi", ".vms", ".vmu", ".scn", ".mrxs", ".svslide", ".bif"),
        *(".czi", ".dcm", ".png", ".jpg", ".jpeg"),
    )
)
"""Suffixes (lower case) of slide files found in a folder; a file given explicitly may have any suffix."""

HAMAMATSU_SUFFIXES = (".vms", ".vmu")
"""Suffixes (lower case) of the index file of a Hamamatsu slide; its images lie next to it and start with its stem."""

PICTURE_SUFFIX = ".inspect.png"
"""Suffix of the pictures that slideseek draws of slides; they are not slides themselves."""

_HIDDEN = (".", "~", "#")
_TEMPORARY = ("~", ".part", ".partial", ".tmp", ".crdownload", ".filepart")


def slide_files(path: Path) -> list[Path]:
    """Return the files that make up a slide, in an order that does not depend on their folder."""
    suffix = path.suffix.lower()
    if suffix == ".dcm":
        uid = dicom_series(path)
        siblings = sorted(file for file in path.parent.iterdir() if has_slide_name(file.name))
        return [file for file in siblings if uid and dicom_series(file) == uid] or [path]
    folder = path.with_suffix("")
    if suffix == ".mrxs" and folder.is_dir():
        return [path, *sorted(file for file in folder.rglob("*") if file.is_file())]
    if suffix in HAMAMATSU_SUFFIXES:
        return sorted(file for file in path.parent.iterdir() if file.is_file() and file.name.startswith(path.stem))
    return [path]


def possible_files(path: Path) -> list[Path]:
    """Return the files that may belong to a slide, without opening any: of DICOM, all of the folder."""
    if path.suffix.lower() == ".dcm":
        return sorted(file for file in path.parent.iterdir() if file.suffix.lower() == ".dcm")
    return slide_files(path)


def is_hidden(name: str) -> bool:
    """Return whether, by its name, a file or folder is hidden, a lock file or an editor's backup."""
    return name.startswith(_HIDDEN)


def has_slide_name(name: str) -> bool:
    """Return whether, by its name alone, a file found in a folder is a slide."""
    lower = name.lower()
    return (
        not is_hidden(lower)
        and not lower.endswith((*_TEMPORARY, PICTURE_SUFFIX))
        and Path(lower).suffix in SLIDE_SUFFIXES
    )


def dicom_series(path: Path) -> str:
    """Return the DICOM series of a file; "" for other files and if OpenSlide cannot open it as part of a slide."""
    return dicom_property(path, "SeriesInstanceUID")


def dicom_property(path: Path, keyword: str) -> str:
    """Return an attribute of a DICOM file by its keyword, such as `PatientID`; "" as for `dicom_series`."""
    if path.suffix.lower() != ".dcm" or isinstance(path, RemotePath):
        return ""
    try:
        with openslide.OpenSlide(path) as slide:
            return slide.properties.get(f"dicom.{keyword}", "").strip()
    except openslide.OpenSlideError:
        return ""
