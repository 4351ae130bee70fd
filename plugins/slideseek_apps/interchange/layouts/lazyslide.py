"""LazySlide: `<slide>.zarr`, a SpatialData store with a table `<model>_<tiles>` per model and the tiles as shapes.

The table's `X` (n, width) has the features and `obs/tile_id` the tiles; `shapes/<tiles>/shapes.parquet` has their
top-left corners in level-0 pixels. The store's attributes state the side of a tile and the resolution. Aggregated
vectors lie in the table's `uns/agg_ops/<name>/features`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slideseek_apps.interchange.feature_file import FeatureFile, to_features, to_vector, to_xy
from slideseek_apps.interchange.layouts.part import Part
from slideseek_apps.interchange.layouts.zarr_store import member, numbers, text

WHOLE = "agg_slide"
MAX_TILES = 1 << 27


def takes(store: Any) -> bool:
    """Return whether a store is one of SpatialData with tables."""
    return "spatialdata_attrs" in store.attrs and member(store, "tables") is not None


def parts(store: Any) -> list[Part]:
    """Return one part per model, and one per vector of the whole slide."""
    found: list[Part] = []
    for name, table in sorted(store["tables"].groups()):
        if member(store, f"shapes/{table.attrs.get('region')}") is None or member(table, "X") is None:
            continue  # a table about something else, such as cells or a graph of tiles
        model = name.removesuffix(f"_{table.attrs['region']}")
        found.append(Part(name, model))
        vector = member(table, f"uns/agg_ops/{WHOLE}")
        if vector is not None:
            found.append(Part(f"{name}/{WHOLE}", f"{model}-{text(vector, 'encoder') or WHOLE}", whole=True))
    return found


def read(path: Path, store: Any, key: str) -> FeatureFile:
    """Read the tiles of one model, or the vector of the whole slide."""
    there = [part.key for part in parts(store)]
    if not key and len(there) == 1:
        key = there[0]
    if key not in there:
        raise ValueError(f"it has no features under {key!r} (it has {', '.join(there) or 'none'})")
    name, _, whole = key.partition("/")
    table = store["tables"][name]
    if whole:
        return to_vector(numbers(table, f"uns/agg_ops/{WHOLE}/features"))
    features = to_features(numbers(table, "X"))
    region = str(table.attrs["region"])
    tiles = numbers(table, f"obs/{table.attrs.get('instance_key', 'tile_id')}", sparse=True)
    spec = _table(_table(store.attrs, "tile_spec"), region)
    slide = _table(store.attrs, "slide_properties")
    return FeatureFile(
        features,
        to_xy(_corners(path / "shapes" / region / "shapes.parquet", tiles), len(features)),
        side=round(_number(spec, "width")),
        extent=_number(spec, "width") * _number(spec, "base_downsample"),
        slide_mpp=_number(slide, "mpp"),
        magnification=_number(slide, "magnification"),
    )


def _corners(file: Path, tiles: Any) -> Any:
    """Return the top-left corners of tiles, (n, 2), in the order of the table."""
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(file) as opened:
        missing = [name for name in ("tile_id", "x", "y") if name not in opened.schema_arrow.names]
        if missing:
            raise ValueError(f"its tiles have no column {missing[0]!r}: write it again with wsidata 0.6 or later")
        if opened.metadata.num_rows > MAX_TILES:
            raise ValueError(f"it claims {opened.metadata.num_rows:,} tiles")
        columns = opened.read(columns=["tile_id", "x", "y"])
    ids, x, y = (columns.column(name).to_numpy() for name in ("tile_id", "x", "y"))
    order = np.argsort(ids, kind="stable")
    at = np.searchsorted(ids[order], tiles)
    if len(ids) == 0 or (at >= len(ids)).any() or (ids[order][np.minimum(at, len(ids) - 1)] != tiles).any():
        raise ValueError("its features name tiles that are not among its shapes")
    return np.stack([x[order][at], y[order][at]], axis=1)


def _table(attributes: Any, name: str) -> Mapping[str, Any]:
    found = attributes.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(table: Mapping[str, Any], name: str) -> float:
    found = table.get(name)
    return float(found) if isinstance(found, (int, float)) and 0 < found < 1e6 else 0.0
