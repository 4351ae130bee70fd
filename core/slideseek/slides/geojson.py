"""Contours of tissue and regions: GeoJSON in level-0 pixels, as QuPath writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slideseek.errors import SlideError
from slideseek.slides.limits import MAX_GEOJSON_BYTES, MAX_GEOJSON_POINTS
from slideseek.slides.polygons import Polygon, fill_polygons
from slideseek.types import Float64, Mask

_FIX = "export the annotations as GeoJSON polygons again"


@dataclass(frozen=True, slots=True)
class Annotation:
    """One feature of a GeoJSON file. name, kind: its name and class in QuPath, "" for none."""

    name: str
    kind: str
    geometry: Any
    file: str

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"annotation {(self.name or self.kind)!r}" if self.name or self.kind else "the annotation"

    def polygons(self) -> list[Polygon]:
        """Return its polygons; raise `SlideError` for a feature of points or lines."""
        return list(_polygons(self.geometry, self.file))


def mask_from_geojson(path: Path, dimensions: tuple[int, int], shape: tuple[int, int]) -> Mask:
    """Return the polygons of a GeoJSON file as bool (h, w) = `shape`, true where a pixel's centre lies inside.

    dimensions: (width, height) of the slide in level-0 pixels, the frame of the file's coordinates.
    """
    return fill_polygons(read_polygons(path), (shape[1] / dimensions[0], shape[0] / dimensions[1]), shape)


def read_polygons(path: Path) -> list[Polygon]:
    """Return the polygons of a GeoJSON file, a MultiPolygon as several.

    Accepts a FeatureCollection, a Feature, a bare geometry, and the plain list of features of older QuPath versions.
    """
    polygons = list(_polygons(_load(path), path.name))
    if not polygons:
        raise SlideError(f"{path.name} contains no polygon", _FIX)
    return polygons


def read_annotations(path: Path) -> list[Annotation]:
    """Return the features of a GeoJSON file, from any of the forms `read_polygons` accepts."""
    found = list(_annotations(_load(path), path.name))
    if not found:
        raise SlideError(f"{path.name} contains no annotation", _FIX)
    return found


def _annotations(node: Any, file: str, depth: int = 0) -> Iterator[Annotation]:
    """Walk a GeoJSON value and yield its features; a bare geometry is one without a name."""
    if isinstance(node, dict) and node.get("type") == "FeatureCollection":
        node = _list(node.get("features"), "features", file)
    if isinstance(node, list) and depth < 4:
        for item in node:
            yield from _annotations(item, file, depth + 1)
    elif isinstance(node, dict) and node.get("type") == "Feature":
        properties = node.get("properties")
        known = properties if isinstance(properties, dict) else {}
        kind = known.get("classification")
        names = known.get("name"), kind.get("name") if isinstance(kind, dict) else kind
        name, kind = (text if isinstance(text, str) else "" for text in names)
        yield Annotation(name, kind, node.get("geometry"), file)
    else:
        yield Annotation("", "", node, file)


def _load(path: Path) -> Any:
    try:
        size = path.stat().st_size
        if size > MAX_GEOJSON_BYTES:
            raise SlideError(
                f"{path.name} is {size / 2**20:.0f} MiB, more than the {MAX_GEOJSON_BYTES // 2**20} MiB allowed",
                "simplify the annotations or export fewer of them",
            )
        data = path.read_bytes()
        if data.count(b"[") > MAX_GEOJSON_POINTS:  # one per point
            raise SlideError(
                f"{path.name} has more than {MAX_GEOJSON_POINTS:,} points",
                "simplify the annotations or export fewer of them",
            )
        return json.loads(data)
    except OSError as error:
        raise SlideError(f"{path} cannot be read ({error.strerror or error})", "check the path") from error
    except (ValueError, RecursionError) as error:
        raise SlideError(f"{path.name} is not valid JSON ({' '.join(str(error).split())[:120]})", _FIX) from error


def _polygons(node: Any, name: str, depth: int = 0) -> Iterator[Polygon]:
    """Walk a GeoJSON value and yield every polygon in it."""
    if depth > 4:
        raise SlideError(f"{name} nests collections too deeply for GeoJSON", _FIX)
    if isinstance(node, list):
        for item in node:
            yield from _polygons(item, name, depth + 1)
        return
    kind = node.get("type") if isinstance(node, dict) else None
    if kind == "FeatureCollection":
        yield from _polygons(_list(node.get("features"), "features", name), name, depth)
    elif kind == "Feature":
        yield from _polygons(node.get("geometry"), name, depth + 1)
    elif kind == "GeometryCollection":
        yield from _polygons(_list(node.get("geometries"), "geometries", name), name, depth)
    elif kind == "Polygon":
        yield _polygon(node.get("coordinates"), name)
    elif kind == "MultiPolygon":
        for part in _list(node.get("coordinates"), "coordinates", name):
            yield _polygon(part, name)
    else:
        what = f"a {kind}" if isinstance(kind, str) else "a value without a GeoJSON type"
        raise SlideError(f"{name} contains {what[:60]}; only Polygon and MultiPolygon can outline a region", _FIX)


def _list(value: Any, key: str, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise SlideError(f"{name} has no list of {key}", _FIX)
    return value


def _polygon(value: Any, name: str) -> Polygon:
    rings = [_ring(ring, name) for ring in _list(value, "coordinates", name)]
    if not rings:
        raise SlideError(f"{name} contains a polygon without a ring", _FIX)
    return rings


def _ring(value: Any, name: str) -> Float64:
    points = _list(value, "points", name)
    # GeoJSON allows a third number, a height; it is ignored.
    if len(points) < 3 or not all(_is_point(point) for point in points):
        raise SlideError(f"{name} contains a ring that is not a list of at least three finite [x, y] points", _FIX)
    return np.array([point[:2] for point in points], dtype=np.float64)


def _is_point(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) in (2, 3) and all(_is_finite(number) for number in value)


def _is_finite(value: Any) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12 and math.isfinite(value)
    )
