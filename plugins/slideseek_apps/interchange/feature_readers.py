"""Read a feature file of any supported format, or report in one line why it cannot be read."""

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
"""Readers by suffix. Formats that can hold coords come first."""


def is_feature_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file can hold features, by its name. Hidden files cannot."""
    name = Path(path)
    return name.suffix.lower() in READERS and not name.name.startswith(".")


def read_feature_file(path: Path) -> FeatureFile:
    """Read the features of one slide. An invalid file raises a `SlideError` with a one-line cause."""
    try:
        if not path.is_file():  # reading a pipe or a device would block
            raise ValueError("it is not a regular file")
        return READERS[path.suffix.lower()](path)
    except Exception as error:  # a parser may raise anything on a hostile file; the other files are still imported
        ours = type(error) is ValueError
        cause = message(error).removeprefix("ValueError: ") if ours else f"it cannot be read ({message(error, 200)})"
        raise SlideError(cause, "write it again, or leave it out") from error
