"""Find the features of one set in the folder layouts of other tools, by looking into the files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slideseek.errors import UsageError
from slideseek_apps.interchange.feature_readers import READERS, Entry, is_feature_file, parts_of
from slideseek_apps.interchange.layouts.part import ONLY, Part
from slideseek_apps.interchange.layouts.zarr_store import SUFFIX, is_store
from slideseek_apps.interchange.slide_names import slide_name

SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DEPTH = 4
"""Depth of the search below the given folder. A TRIDENT job has its features two levels down."""

SNIFFED = 5
"""Files looked into per folder: all files of a folder are written by one tool."""

# Pictures of TRIDENT, and what slide2vec writes about patients, regions and tokens.
_OTHER_FOLDERS = re.compile(
    r"contours.*|thumbnails|visualization|slide_latents|patient_embeddings|hierarchical_embeddings|\..*"
)
# Folders with features in one tool's layout and with coordinates alone in another's.
_MAYBE = ("patches", "tiles")
_PATCHES, _SLIDES = "features_", "slide_features_"
_CLAM_PLACED, _CLAM_BARE = "h5_files", "pt_files"


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """The features of one set, one entry per slide, in name order; the name of the set; notes for the user.

    whole: one vector per slide.
    """

    files: Sequence[Entry]
    name: str
    notes: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """One set: its folder, the part of each file, and its name. files: those given, None for all in the folder."""

    folder: Path
    part: Part
    name: str
    files: tuple[Path, ...] | None = None


def find_feature_set(folder: Path, name: str | None = None, encoder: str | None = None) -> FeatureSet:
    """Return the one set of features in a folder or file. No set, or several, is an error that lists what was found.

    name: of the set; by default the encoder's, if the tool states it, else the folder's. encoder: which one of several
    sets. Features of patches come before vectors of whole slides.
    """
    found = _sets_of(folder)
    chosen = _choose(folder, found, encoder)
    called = name or chosen.name
    if not SET_NAME.fullmatch(called):
        raise UsageError(
            f"{called!r} cannot be the name of a set", "pass --set with letters, digits, '.', '_' and '-' (at most 64)"
        )
    files, notes = _one_per_slide(chosen)
    others = [other.name for other in found if other.part.whole and not chosen.part.whole]
    if others and encoder is None:
        notes = (*notes, f"there are vectors of whole slides too ({', '.join(others)}): --encoder {others[0]}")
    return FeatureSet(files, called, notes, chosen.part.whole)


def join_sets(sets: Sequence[FeatureSet], name: str) -> FeatureSet:
    """Return one set with the vectors of several side by side, for the slides that all of them have."""
    for one in sets:
        if not one.whole:
            raise UsageError(
                f"set {one.name!r} has features of patches", "only vectors of whole slides can be put side by side"
            )
    tables = [{entry.slide: entry for entry in one.files} for one in sets]
    common = [slide for slide in tables[0] if all(slide in table for table in tables)]
    if not common:
        raise UsageError("no slide has a vector in each of these folders", "check that their files have the same names")
    left = len({slide for table in tables for slide in table}) - len(common)
    notes = [note for one in sets for note in one.notes]
    if left:
        notes.append(f"{left} slide(s) lack a vector in one of the {len(sets)} sets and are left out")
    files = [replace(tables[0][slide], also=tuple(table[slide] for table in tables[1:])) for slide in common]
    return FeatureSet(files, name, tuple(notes), whole=True)


def _sets_of(top: Path) -> list[_Found]:
    """Return every set at or below a folder, or in one file or store."""
    if is_store(top) or (top.is_file() and is_feature_file(top)):
        return _sets_in(top.parent, (top,))
    if top.is_file():
        raise UsageError(
            f"{top} is not a file of features",
            f"name a folder or a file of features ({', '.join([*READERS, SUFFIX])}); of exported codes, codes.npz",
        )
    if not top.is_dir():
        raise UsageError(f"{top} is not a folder", "name the folder that holds the feature files")
    found = [one for place in _places(top) for one in _sets_in(place, None)]
    if not found:
        raise UsageError(
            f"no feature files in {top}", f"name a folder with one file per slide ({', '.join([*READERS, SUFFIX])})"
        )
    return found


def _choose(top: Path, found: Sequence[_Found], encoder: str | None) -> _Found:
    fitting = [one for one in found if encoder in (None, one.name, one.part.encoder)]
    if not fitting:
        names = ", ".join(dict.fromkeys(one.name for one in found))
        raise UsageError(f"{top} has no features by {encoder!r}", f"--encoder is one of: {names}")
    patches = [one for one in fitting if not one.part.whole] or fitting
    if len(patches) == 1:
        return patches[0]
    places = {one.folder for one in patches}
    several = len(places) < len(patches)
    listed = [f"{_below(one.folder, top)} ({one.name})" if several else _below(one.folder, top) for one in patches]
    fix = f"pass --encoder {patches[0].name}" if len(places) == 1 else f"name one: slideseek import {patches[0].folder}"
    shown = ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
    raise UsageError(f"{top} holds {len(patches)} sets of features: {shown}", fix)


def _below(folder: Path, top: Path) -> str:
    return str(folder.relative_to(top)) if folder.is_relative_to(top) else str(folder)


def _places(top: Path) -> list[Path]:
    """Return the folders at or below `top` that hold feature files; the two that CLAM writes are one, their parent."""
    found: list[Path] = []
    for where, folders, names in os.walk(top):
        here = Path(where)
        stores = [name for name in folders if is_store(here / name)]
        folders[:] = sorted(name for name in folders if name not in stores and not _OTHER_FOLDERS.fullmatch(name))
        clam = [name for name in (_CLAM_PLACED, _CLAM_BARE) if name in folders and _feature_files(here / name)]
        if clam or stores or any(is_feature_file(name) for name in names):
            found.append(here)
            folders.clear()
        elif len(here.relative_to(top).parts) >= DEPTH:
            folders.clear()
    return found


def _sets_in(folder: Path, files: tuple[Path, ...] | None) -> list[_Found]:
    """Return the sets in the files of one folder: one per encoder."""
    inside = files or _all_files(folder)
    found: dict[tuple[str, str, bool], _Found] = {}
    readable = [parts for file in inside[:SNIFFED] if (parts := parts_of(file)) is not None]
    if not readable and folder.name not in _MAYBE:
        readable = [[ONLY]]
    whole = folder.resolve().name.startswith(_SLIDES)
    for part in (part for parts in readable for part in parts):
        part = replace(part, whole=part.whole or whole)
        key = ("" if part.slide else part.key, part.encoder, part.whole)
        name = part.encoder or _default_name(files[0] if files and part.slide else folder)
        found.setdefault(key, _Found(folder, part, name, files))
    return list(found.values())


def _all_files(folder: Path) -> list[Path]:
    return [*_feature_files(folder), *_feature_files(folder / _CLAM_PLACED), *_feature_files(folder / _CLAM_BARE)]


def _feature_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if is_store(path) or (path.is_file() and is_feature_file(path)))


def _default_name(path: Path) -> str:
    full = path.resolve()
    if full.is_file():
        return full.stem
    name = full.parent.name if full.name in (_CLAM_PLACED, _CLAM_BARE) else full.name
    return name.removeprefix(_SLIDES).removeprefix(_PATCHES)


def _one_per_slide(chosen: _Found) -> tuple[list[Entry], tuple[str, ...]]:
    """Return one entry per slide. Of several files, choose the one whose format can hold coords."""
    order = {suffix: place for place, suffix in enumerate([SUFFIX, *READERS])}
    files = list(chosen.files or _all_files(chosen.folder))
    if chosen.part.slide:
        entries = [Entry(file, part.slide, part) for file in files for part in parts_of(file) or () if part.slide]
    else:
        files.sort(key=lambda path: order[path.suffix.lower()])
        entries = [Entry(file, slide_name(file), chosen.part) for file in files]
    kept: dict[str, Entry] = {}
    doubled = [entry for entry in entries if kept.setdefault(entry.slide, entry) is not entry]
    notes = []
    if doubled:
        names = f"{kept[doubled[0].slide].label} is used, not {doubled[0].label}"
        notes.append(f"{len(doubled)} slide(s) have more than one file: {names}")
    return sorted(kept.values(), key=lambda entry: entry.slide), tuple(notes)
