"""GeoJSON: exact masks, QuPath's files, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.errors import SlideError
from slideseek.slides import geojson
from slideseek.slides.geojson import mask_from_geojson, read_polygons

SQUARE = [[10, 10], [30, 10], [30, 30], [10, 30], [10, 10]]
HOLE = [[15, 15], [25, 15], [25, 25], [15, 25], [15, 15]]


def save(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "regions.geojson"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def polygon(*rings: list[list[Any]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


def feature(geometry: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": {}}


@pytest.mark.parametrize(
    "value",
    [
        polygon(SQUARE, HOLE),
        feature(polygon(SQUARE, HOLE)),
        {"type": "FeatureCollection", "features": [feature(polygon(SQUARE, HOLE))]},
        [feature(polygon(SQUARE, HOLE))],
        {"type": "MultiPolygon", "coordinates": [[SQUARE, HOLE]]},
        {"type": "GeometryCollection", "geometries": [polygon(SQUARE, HOLE)]},
        polygon([[*point, 0] for point in SQUARE], HOLE[:-1]),
    ],
    ids=["polygon", "feature", "collection", "qupath-list", "multi", "geometries", "heights-and-open"],
)
def test_kinds_of_geojson(value: Any, tmp_path: Path) -> None:
    mask = mask_from_geojson(save(tmp_path, value), (40, 40), (40, 40))
    expected = np.zeros((40, 40), np.bool_)
    expected[10:30, 10:30] = True
    expected[15:25, 15:25] = False
    assert np.array_equal(mask, expected)


def test_slanted_edges_follow_pixel_centres(tmp_path: Path) -> None:
    triangle = save(tmp_path, polygon([[0, 0], [40, 0], [0, 40]]))
    mask = mask_from_geojson(triangle, (40, 40), (40, 40))
    y, x = np.mgrid[:40, :40] + 0.5
    assert np.array_equal(mask, x + y < 40)


def test_regions_may_reach_beyond_the_slide(tmp_path: Path) -> None:
    path = save(tmp_path, polygon([[-100, -100], [20, -100], [20, 500], [-100, 500]]))
    mask = mask_from_geojson(path, (40, 40), (40, 40))
    assert mask[:, :20].all()
    assert not mask[:, 20:].any()
    away = save(tmp_path, polygon([[100, 100], [200, 100], [200, 200]]))
    assert not mask_from_geojson(away, (40, 40), (40, 40)).any()


def test_several_polygons_are_joined(tmp_path: Path) -> None:
    other = [[point[0] + 5, point[1] + 5] for point in SQUARE]
    path = save(tmp_path, [feature(polygon(SQUARE)), feature(polygon(other))])
    assert mask_from_geojson(path, (40, 40), (40, 40)).sum() == 20 * 20 * 2 - 15 * 15
    assert len(read_polygons(path)) == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{not json", "not valid JSON"),
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ({"type": "Point", "coordinates": [1, 2]}, "a Point"),
        ({"type": "LineString", "coordinates": SQUARE}, "a LineString"),
        (feature(None), "without a GeoJSON type"),
        ({"hello": 1}, "without a GeoJSON type"),
        (3, "without a GeoJSON type"),
        ([], "no polygon"),
        ({"type": "FeatureCollection", "features": []}, "no polygon"),
        ({"type": "FeatureCollection"}, "no list of features"),
        ({"type": "Polygon"}, "no list of coordinates"),
        (polygon(), "without a ring"),
        (polygon([[1, 2], [3, 4]]), "at least three"),
        (polygon([[1, 2], [3, 4], ["a", 5]]), "finite"),
        (polygon([[1, 2], [3, 4], [1]]), "finite"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, NaN], [2, 2]]]}', "finite"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, 1e300], [2, 2]]]}', "finite"),
        ([[[[[[feature(polygon(SQUARE))]]]]]], "too deeply"),
    ],
)
def test_refusals(value: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(SlideError) as caught:
        mask_from_geojson(save(tmp_path, value), (40, 40), (40, 40))
    assert words in caught.value.cause
    assert "\n" not in str(caught.value)
    assert caught.value.fix


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SlideError, match="cannot be read"):
        mask_from_geojson(tmp_path / "nowhere.geojson", (40, 40), (40, 40))


def test_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "picture.geojson"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(SlideError, match="not valid JSON"):
        mask_from_geojson(path, (40, 40), (40, 40))


def test_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geojson, "MAX_GEOJSON_BYTES", 2**20)
    path = save(tmp_path, "[" + " " * 2**20 + "]")
    with pytest.raises(SlideError, match="more than the 1 MiB allowed"):
        read_polygons(path)


def test_points_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slideseek.slides.geojson.MAX_GEOJSON_POINTS", 100)
    path = tmp_path / "many.geojson"
    path.write_text('{"type": "Polygon", "coordinates": [[' + ",".join(f"[{at},{at}]" for at in range(200)) + "]]}")
    with pytest.raises(SlideError, match="more than 100 points"):
        mask_from_geojson(path, (10, 10), (10, 10))
