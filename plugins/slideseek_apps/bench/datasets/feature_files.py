"""Bags out of feature files that other tools wrote, one file per slide.

The one module of the benchmark that uses the application `interchange`, which reads these files. It is imported when a
folder of files is asked for: the other kinds of data work without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slideseek.archive.manifest import Problem
from slideseek.plugins import needs_application
from slideseek.types import Bag, SlideRecord
from slideseek_apps.bench.datasets.dataset import LazyBags

if TYPE_CHECKING:
    from slideseek_apps.interchange.feature_folders import FeatureSet
    from slideseek_apps.interchange.feature_readers import Entry

FOLDER = "a folder of feature files"


def find_files(folder: Path) -> FeatureSet:
    """Return the one set of feature files in a folder; the application `interchange` knows the layouts of folders."""
    with needs_application("interchange", FOLDER):
        from slideseek_apps.interchange.feature_folders import find_feature_set
    return find_feature_set(folder)


SUFFIXES = (".h5", ".hdf5", ".npz", ".npy", ".pt")
"""Endings of the files that `interchange` reads, known here so that a folder is recognised without it too."""


def is_feature_file(path: Path) -> bool:
    """Say whether a file or a Zarr store can hold features, by its name."""
    if path.suffix.lower() == ".zarr":
        return (path / "zarr.json").is_file() or (path / ".zgroup").is_file()
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def bare_records(files: Sequence[Entry]) -> tuple[SlideRecord, ...]:
    """Return the slides the feature files are about, with no more than their names."""
    return tuple(SlideRecord(file.slide, file.path.name) for file in files)


def read_bag(entry: Entry, slide_id: str, site: str = "") -> Bag:
    """Read the features of one slide as a bag. Positions are zero when they are unknown: encoders ignore them."""
    from slideseek_apps.interchange.feature_readers import read_entry

    file = read_entry(entry)
    xy = file.xy if file.xy is not None else np.zeros((len(file.features), 2), np.int32)
    return Bag(slide_id, file.features, xy, site)


def match_files(
    files: Sequence[Entry], records: Sequence[SlideRecord]
) -> tuple[dict[str, Entry], list[Problem], list[str]]:
    """Find the feature file of each slide, by id, stem or the part before the first dot.

    Returns the files by slide id, the files that match several slides or a slide that already has one, and notes on
    files without a slide and slides without a file.
    """
    from slideseek_apps.interchange.slide_names import ByName

    by_name = ByName(records, lambda record: record.id, lambda record: record.path)
    found: dict[str, Entry] = {}
    problems: list[Problem] = []
    strangers: list[str] = []
    for file in files:
        fitting = by_name.find(file.slide)
        if len(fitting) > 1:
            names = ", ".join(repr(record.id) for record in fitting[:3])
            problems.append(Problem(file.label, f"several slides match it ({names})", "name the file after its slide"))
        elif not fitting:
            strangers.append(file.label)
        elif (first := found.setdefault(fitting[0].id, file)) is not file:
            cause = f"it matches slide {fitting[0].id!r}, as {first.label} does"
            problems.append(Problem(file.label, cause, "keep one of the two"))
    notes = []
    if strangers:
        notes.append(f"{len(strangers)} feature file(s) match no slide: {_some(strangers)}")
    if without := [record.id for record in records if record.id not in found]:
        notes.append(f"{len(without)} slide(s) have no feature file: {_some(without)}")
    return found, problems, notes


def lazy_bags(files: Mapping[str, Entry], sites: Mapping[str, str]) -> LazyBags:
    """Return bags that are read when they are used. files, sites: by slide id."""
    readers: dict[str, Callable[[], Bag]] = {
        slide_id: partial(read_bag, entry, slide_id, sites.get(slide_id, "")) for slide_id, entry in files.items()
    }
    return LazyBags(readers)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
