"""Read features of any supported layout, or report in one line why they cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from slideseek.errors import SlideError, message
from slideseek_apps.interchange.feature_file import FeatureFile
from slideseek_apps.interchange.layouts import code_table, lazyslide, slide2vec, tiatoolbox
from slideseek_apps.interchange.layouts.hdf5 import hdf5_parts, read_hdf5
from slideseek_apps.interchange.layouts.numpy_file import array_names, read_npy, read_npz
from slideseek_apps.interchange.layouts.part import ONLY, Part
from slideseek_apps.interchange.layouts.torch_file import read_pt
from slideseek_apps.interchange.layouts.zarr_store import DESCRIPTIONS, description, is_store, open_store

READERS: Mapping[str, Callable[[Path, str, bool], FeatureFile]] = MappingProxyType(
    {".h5": read_hdf5, ".hdf5": read_hdf5, ".npz": read_npz, ".npy": read_npy, ".pt": read_pt}
)
"""Readers by suffix. Formats that can hold coords come first."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The features of one slide: a file or a Zarr store, the slide's name, and which part of the file it is.

    also: vectors of the same slide by other encoders, which are put behind this one.
    """

    path: Path
    slide: str
    part: Part = ONLY
    also: tuple[Entry, ...] = ()

    @property
    def label(self) -> str:
        """The name of the file, and of the slide where a file holds several."""
        return f"{self.path.name}: {self.slide}" if self.part.slide else self.path.name

    @property
    def file(self) -> Path:
        """The file that stands for the features in the archive."""
        return description(self.path) if is_store(self.path) else self.path


def is_feature_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file can hold features, by its name. Hidden files cannot."""
    name = Path(path)
    return name.suffix.lower() in READERS and not name.name.startswith(".")


def stands_for_features(path: str | os.PathLike[str]) -> bool:
    """Return whether the file of a slide is one of features, or the top of a Zarr store, and so has no pixels."""
    return is_feature_file(path) or Path(path).name in DESCRIPTIONS


def parts_of(path: Path) -> list[Part] | None:
    """Return what a file or store holds, found by looking into it; None when it cannot be read."""
    try:
        if is_store(path):
            store = open_store(path)
            return next((layout.parts(store) for layout in (lazyslide, tiatoolbox) if layout.takes(store)), [])
        suffix = path.suffix.lower()
        if suffix in (".h5", ".hdf5"):
            return hdf5_parts(path)
        if suffix == ".npz" and code_table.takes(path):
            return code_table.parts(path)
        if suffix == ".npz" and "features" not in array_names(path):
            return []
        whole = path.parent.name == slide2vec.SLIDES or READERS[suffix](path, "", False).whole
        return [Part(encoder=slide2vec.encoder_of(path), whole=whole)]
    except Exception:  # the cause is reported when the file is imported
        return None


def read_feature_file(path: Path, part: Part = ONLY) -> FeatureFile:
    """Read the features of one slide. An invalid file raises a `SlideError` with a one-line cause."""
    try:
        if is_store(path):
            store = open_store(path)
            if lazyslide.takes(store):
                return lazyslide.read(path, store, part.key)
            if tiatoolbox.takes(store):
                return tiatoolbox.read(store)
            raise ValueError("it is a Zarr store without features of LazySlide or TIAToolbox")
        if not path.is_file():  # reading a pipe or a device would block
            raise ValueError("it is not a regular file")
        if slide2vec.takes(path):
            return slide2vec.read(path)
        if path.suffix.lower() == ".npz" and code_table.takes(path):
            return code_table.read(path, part.key)
        return READERS[path.suffix.lower()](path, part.key, part.whole)
    except SlideError:
        raise
    except Exception as error:  # a parser may raise anything on a hostile file; the other files are still imported
        ours = type(error) is ValueError
        cause = message(error).removeprefix("ValueError: ") if ours else f"it cannot be read ({message(error, 200)})"
        raise SlideError(cause, "write it again, or leave it out") from error


def read_entry(entry: Entry) -> FeatureFile:
    """Read the features of one slide; vectors by several encoders come side by side."""
    first = read_feature_file(entry.path, entry.part)
    if not entry.also:
        return first
    files = [first, *(read_feature_file(other.path, other.part) for other in entry.also)]
    if not all(file.whole for file in files):
        raise SlideError("it has features of patches", "only vectors of whole slides can be put side by side")
    rows = [file.features for file in files]
    return FeatureFile(np.concatenate(rows, axis=1), whole=True, parts=tuple(row.shape[1] for row in rows))
