"""Attributes and groups of HDF5 files that may come from anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import h5py

LARGEST = 1e6
"""Larger than any plausible side in pixels, magnification or resolution."""


def number(owner: h5py.Dataset | h5py.File, name: str) -> float | None:
    """Return an attribute that is one plausible number (a level may be 0), else None."""
    if name not in owner.attrs:
        return None
    attribute = owner.attrs.get_id(name)
    if attribute.shape != () or attribute.dtype.kind not in "iuf":
        return None
    value = float(owner.attrs[name])
    return value if 0 < value < LARGEST or (value == 0 and name == "patch_level") else None


def numbers(owner: h5py.Dataset | h5py.File, names: Sequence[str]) -> dict[str, float]:
    """Return the attributes that are plausible numbers, by name."""
    return {name: value for name in names if (value := number(owner, name)) is not None}


def text(owner: h5py.Dataset | h5py.File, name: str) -> str:
    """Return an attribute that is a short text, else ""."""
    if name not in owner.attrs or owner.attrs.get_id(name).shape != ():
        return ""
    value = owner.attrs[name]
    return value if isinstance(value, str) and len(value) <= 200 else ""


def own_group(file: h5py.File, name: str) -> h5py.Group | None:
    """Return a group stored in the file itself; None when there is none, or when it is a link."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return None
    found = file[name]
    return found if isinstance(found, h5py.Group) else None


def has_dataset(file: h5py.File, name: str) -> bool:
    """Return whether the file has something under a name that is not a group."""
    return file.get(name, getlink=True) is not None and own_group(file, name) is None


def vector_shaped(file: h5py.File, name: str) -> bool:
    """Return whether a dataset of the file itself has one axis. No link is followed."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return False
    found = file[name]
    return isinstance(found, h5py.Dataset) and len(found.shape or ()) == 1
