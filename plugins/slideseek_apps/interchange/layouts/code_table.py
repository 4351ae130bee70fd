"""`codes.npz` as 'slideseek export codes' writes it: the float codes of many slides, each a vector of a whole slide."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek_apps.interchange.feature_file import FeatureFile, to_vector
from slideseek_apps.interchange.layouts.numpy_file import array_names, read_array
from slideseek_apps.interchange.layouts.part import Part

ARRAYS = {"ids", "starts", "kind", "width"}


def takes(path: Path) -> bool:
    """Return whether a `.npz` is a table of codes."""
    return array_names(path) >= ARRAYS


def parts(path: Path) -> list[Part]:
    """Return one part per slide."""
    return [Part(name, slide=name, whole=True) for name in _table(path, path.stat().st_mtime_ns)]


def read(path: Path, key: str) -> FeatureFile:
    """Read the code of one slide."""
    table = _table(path, path.stat().st_mtime_ns)
    if key not in table:
        raise ValueError(f"it has no code of slide {key!r}")
    return to_vector(table[key])


@lru_cache(maxsize=1)
def _table(path: Path, changed: int) -> dict[str, NDArray[Any]]:
    """Return the codes by slide; kept, since an import asks for one slide at a time."""
    kind = str(read_array(path, "kind"))
    if kind != "float" or "rows" not in array_names(path):
        raise ValueError(f"its codes are {kind}, not floats: only a vector of floats can stand for a slide's features")
    ids, starts, rows = (read_array(path, name) for name in ("ids", "starts", "rows"))
    if ids.dtype.kind != "U" or starts.shape != (len(ids) + 1,) or rows.ndim != 2:
        raise ValueError("its arrays do not fit together")
    if not np.array_equal(starts, np.arange(len(ids) + 1)) or len(rows) != len(ids):
        raise ValueError("its codes have several rows per slide, not one vector")
    return {str(name): row for name, row in zip(ids, rows)}
