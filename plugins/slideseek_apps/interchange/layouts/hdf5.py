"""Open an HDF5 file of another tool, find out who wrote it, and read it with the module of that layout."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import h5py

from slideseek_apps.interchange.feature_file import FeatureFile
from slideseek_apps.interchange.layouts import atlaspatch, stamp, trident
from slideseek_apps.interchange.layouts.part import Part


class Layout(Protocol):
    """A module that reads the HDF5 files of one tool."""

    def takes(self, file: h5py.File) -> bool: ...

    def parts(self, file: h5py.File) -> list[Part]: ...

    def read(self, file: h5py.File, key: str, whole: bool) -> FeatureFile: ...


LAYOUTS: tuple[Layout, ...] = (atlaspatch, stamp, trident)
"""Asked in this order. The last one takes any file, so that its message says what is missing."""


def hdf5_parts(path: Path) -> list[Part]:
    """Return what a file holds; nothing for a file of coordinates alone."""
    with _open(path) as file:
        return next(layout.parts(file) for layout in LAYOUTS if layout.takes(file))


def read_hdf5(path: Path, key: str = "", whole: bool = False) -> FeatureFile:
    """Read one part of a file. whole: the folder's name says that it is a vector of a whole slide."""
    with _open(path) as file:
        layout = next(one for one in LAYOUTS if one.takes(file))
        return layout.read(file, key, whole)


def _open(path: Path) -> h5py.File:
    return h5py.File(path, "r", locking="best-effort")  # a read-only share may not support locks
