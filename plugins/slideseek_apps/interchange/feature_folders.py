"""Find the feature files of one set in the folder layouts of TRIDENT and CLAM, or in a plain folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slideseek.errors import UsageError
from slideseek_apps.interchange.feature_readers import READERS, is_feature_file

SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DEPTH = 4
"""Depth of the search below the given folder. A TRIDENT job has its features two levels down."""

# Other folders of TRIDENT: coords without features, slide-level vectors, pictures.
_OTHER_FOLDERS = re.compile(r"patches|slide_features_.*|contours.*|thumbnails|visualization|\..*")
_FEATURES = "features_"
_CLAM_PLACED, _CLAM_BARE = "h5_files", "pt_files"


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """The feature files of one set, one per slide, in name order; the name of the set; notes for the user."""

    files: Sequence[Path]
    name: str
    notes: tuple[str, ...] = ()


def find_feature_set(folder: Path, name: str | None = None) -> FeatureSet:
    """Return the one set of features in a folder. No set, or several, is an error that lists what was found.

    name: of the set; by default TRIDENT's name of the patch encoder, else the folder's name.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", "name the folder that holds the feature files")
    found = _set_folders(folder)
    if not found:
        raise UsageError(
            f"no feature files in {folder}", f"name a folder with one file per slide ({', '.join(READERS)})"
        )
    if len(found) > 1:
        listed = ", ".join(str(path.relative_to(folder)) for path in found[:8]) + (", ..." if len(found) > 8 else "")
        raise UsageError(
            f"{folder} holds {len(found)} sets of features: {listed}",
            f"name one of them: slideseek import {found[0]}",
        )
    chosen = name or _default_name(found[0])
    if not SET_NAME.fullmatch(chosen):
        raise UsageError(
            f"{chosen!r} cannot be the name of a set", "pass --set with letters, digits, '.', '_' and '-' (at most 64)"
        )
    files, notes = _one_per_slide(found[0])
    return FeatureSet(files, chosen, notes)


def _set_folders(top: Path) -> list[Path]:
    """Return the folders at or below `top` that hold feature files; the two that CLAM writes are one, their parent."""
    found: list[Path] = []
    for where, folders, names in os.walk(top):
        here = Path(where)
        clam = [name for name in (_CLAM_PLACED, _CLAM_BARE) if name in folders and _feature_files(here / name)]
        if clam or any(is_feature_file(name) for name in names):
            found.append(here)
            folders.clear()
        elif len(here.relative_to(top).parts) >= DEPTH:
            folders.clear()
        folders[:] = sorted(name for name in folders if not _OTHER_FOLDERS.fullmatch(name))
    return found


def _feature_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if is_feature_file(path)) if folder.is_dir() else []


def _default_name(folder: Path) -> str:
    full = folder.resolve()
    name = full.parent.name if full.name in (_CLAM_PLACED, _CLAM_BARE) else full.name
    return name.removeprefix(_FEATURES)


def _one_per_slide(folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return one file per stem. Of several, choose the one whose format can hold coords."""
    order = list(READERS)
    files = [*_feature_files(folder), *_feature_files(folder / _CLAM_PLACED), *_feature_files(folder / _CLAM_BARE)]
    files.sort(key=lambda path: order.index(path.suffix.lower()))
    chosen: dict[str, Path] = {}
    doubled = [path for path in files if chosen.setdefault(path.stem, path) is not path]
    notes = []
    if doubled:
        names = f"{chosen[doubled[0].stem].name} is used, not {doubled[0].name}"
        notes.append(f"{len(doubled)} slide(s) have more than one file: {names}")
    return sorted(chosen.values(), key=lambda path: path.stem), tuple(notes)
