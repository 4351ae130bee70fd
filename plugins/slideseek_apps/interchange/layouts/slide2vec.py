"""slide2vec: `tile_embeddings/<slide>.npz` or `.pt`, and the positions in `tiles/<slide>.coordinates.npz` beside it.

`tiles/<slide>.coordinates.meta.json` states the side of a tile and the resolution. Vectors of whole slides lie in
`slide_embeddings`. `<slide>.meta.json` next to the features names the encoder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slideseek_apps.interchange.feature_file import FeatureFile, to_xy
from slideseek_apps.interchange.layouts.numpy_file import array_names, read_array, read_npz
from slideseek_apps.interchange.layouts.torch_file import read_pt

TILES, SLIDES, COORDINATES = "tile_embeddings", "slide_embeddings", "tiles"
LEVEL_0 = "level0_px"
MAX_JSON_BYTES = 1 << 20


def takes(path: Path) -> bool:
    """Return whether a file is one of slide2vec's tile embeddings: its positions are in the sister folder."""
    return _coordinates(path) is not None


def encoder_of(path: Path) -> str:
    """Return the name of the encoder that the file beside the features states, "" if none does."""
    beside = path.with_name(f"{path.stem}.meta.json")
    found = _json(beside).get("encoder_name") if beside.is_file() else None
    return found if isinstance(found, str) else ""


def read(path: Path) -> FeatureFile:
    """Read the features of a slide's tiles and their positions in level-0 pixels."""
    plain = read_npz(path) if path.suffix.lower() == ".npz" else read_pt(path)
    rows, where = len(plain.features), _coordinates(path)
    if where is None:
        raise ValueError("the positions of its tiles are missing")
    x, y = read_array(where, "x"), read_array(where, "y")
    order = np.arange(rows)
    if path.suffix.lower() == ".npz" and "tile_index" in array_names(path):
        order = read_array(path, "tile_index")
        wanted = order.dtype.kind in "iu" and order.shape == (rows,) and (rows == 0 or order.min() >= 0)
        if not wanted or (rows and order.max() >= len(x)):
            raise ValueError("its 'tile_index' does not number the tiles of its coordinates")
    elif len(x) != rows:
        raise ValueError(f"it has {rows} tiles, {where.name} has {len(x)}")
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"{where.name}: x and y have shapes {x.shape} and {y.shape}")
    beside = where.with_name(f"{where.name.removesuffix('.npz')}.meta.json")
    meta = _json(beside) if beside.is_file() else {}
    tiling, slide, artifact = (_table(meta, name) for name in ("tiling", "slide", "artifact"))
    space = artifact.get("coordinate_space", LEVEL_0)
    if space != LEVEL_0:
        raise ValueError(f"the positions in {where.name} are in {space!r}, not {LEVEL_0!r}")
    return FeatureFile(
        plain.features,
        to_xy(np.stack([x[order], y[order]], axis=1), rows),
        side=round(_number(tiling, "requested_tile_size_px")),
        extent=_number(tiling, "tile_size_lv0"),
        slide_mpp=_number(slide, "base_spacing_um"),
    )


def _coordinates(path: Path) -> Path | None:
    """Return the file of positions of a slide, in the sister folder of the job."""
    for above in list(path.parents)[:3]:
        if above.name == TILES:
            found = above.parent / COORDINATES / f"{path.stem}.coordinates.npz"
            return found if found.is_file() else None
    return None


def _json(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > MAX_JSON_BYTES:
        raise ValueError(f"{path.name} is larger than such a file is")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is not a table")
    return found


def _table(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = meta.get(name)
    return found if isinstance(found, dict) else {}


def _number(table: Mapping[str, Any], name: str) -> float:
    found = table.get(name)
    return float(found) if isinstance(found, (int, float)) and 0 < found < 1e6 else 0.0
