"""Read a feature file of any known kind, or say in one line why not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from slideseek.errors import SlideError, message
from slideseek_apps.interchange.feature_file import FeatureFile
from slideseek_apps.interchange.hdf5_file import read_hdf5
from slideseek_apps.interchange.numpy_file import read_npy, read_npz
from slideseek_apps.interchange.torch_file import read_pt

READERS: Mapping[str, Callable[[Path], FeatureFile]] = MappingProxyType(
    {".h5": read_hdf5, ".hdf5": read_hdf5, ".npz": read_npz, ".npy": read_npy, ".pt": read_pt}
)
"""Readers by suffix, those of files that can hold places first."""


def is_feature_file(path: str | os.PathLike[str]) -> bool:
    """Tell by its name whether a file can hold features; hidden files cannot."""
    name = Path(path)
    return name.suffix.lower() in READERS and not name.name.startswith(".")


def read_feature_file(path: Path) -> FeatureFile:
    """Read the features of one slide; a file that is not sound is a `SlideError` whose cause is one line."""
    try:
        if not path.is_file():  # a pipe or a device would be waited for
            raise ValueError("it is not a regular file")
        return READERS[path.suffix.lower()](path)
    except Exception as error:  # a parser given a hostile file may raise anything; the rest is still imported
        ours = type(error) is ValueError
        cause = message(error).removeprefix("ValueError: ") if ours else f"it cannot be read ({message(error, 200)})"
        raise SlideError(cause, "write it again, or leave it out") from error
