"""Find slides on disk: files as given, folders recursively, and a slide of several files as one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from slideseek.errors import SlideError
from slideseek.slides.file_formats import HAMAMATSU_SUFFIXES, dicom_series, has_slide_name, is_hidden


def find_slides(paths: Sequence[Path], ready: Callable[[Path], bool] = lambda _: True) -> list[Path]:
    """Return the slides among files and folders, without duplicates.

    Files are taken as given. Folders are searched recursively, in sorted order. Hidden files, temporary files and the
    pictures of `slideseek inspect` are skipped. Links are followed, and no folder is entered twice, so a loop of links
    ends. The `.dcm` files of one DICOM series in one folder are one slide, named by the first of them. The folder of a
    MIRAX slide and the images of a Hamamatsu VMS slide are not separate slides. ready: whether a file found in a folder
    may be opened; others are left out.
    """
    found: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            slides = list(_in_folder(path, ready))
        elif path.exists():
            slides = [path]
        else:
            raise SlideError(f"{path} does not exist", "check the path")
        for slide in slides:
            found.setdefault(os.path.realpath(slide), slide)
    return list(found.values())


def _in_folder(folder: Path, ready: Callable[[Path], bool]) -> Iterator[Path]:
    """Walk a folder from the top and yield its slides."""
    seen: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(where)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        mirax = {Path(name).stem for name in names if name.lower().endswith(".mrxs")}
        folders[:] = sorted(name for name in folders if not is_hidden(name) and name not in mirax)
        hamamatsu = tuple(Path(name).stem for name in names if name.lower().endswith(HAMAMATSU_SUFFIXES))
        slides = [name for name in sorted(names) if has_slide_name(name) and not _is_part(name, hamamatsu)]
        yield from _one_per_series([path for name in slides if ready(path := Path(where, name))])


def _is_part(name: str, stems: tuple[str, ...]) -> bool:
    """Return whether a file is an image that belongs to one of the Hamamatsu slides named by their stems."""
    return name.startswith(stems) and not name.lower().endswith(HAMAMATSU_SUFFIXES)


def _one_per_series(files: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of one folder, only the first of every DICOM series; the reader rejects what is not a slide."""
    known: set[str] = set()
    for path in files:
        uid = dicom_series(path)
        if uid not in known:
            yield path
        if uid:
            known.add(uid)
