"""The outline of tissue: exact there and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage

from slideseek.slides.geojson import mask_from_geojson
from slideseek.slides.polygons import fill
from slideseek.types import Mask
from slideseek_apps.doctor.tissue_outline import geojson_from_mask, outlines


@given(arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 12))))
@settings(max_examples=200, deadline=None)
def test_outlines_fill_to_the_same_mask(mask: Mask) -> None:
    objects = outlines(mask)
    again = np.zeros_like(mask)
    for rings in objects:
        again |= fill(rings, mask.shape)
        for ring in rings:
            assert (ring[0] == ring[-1]).all()
    assert np.array_equal(again, mask)
    assert len(objects) == ndimage.label(mask)[1]


def test_the_outer_ring_comes_first() -> None:
    mask = np.ones((9, 9), np.bool_)
    mask[3:6, 3:6] = False
    ((outer, hole),) = outlines(mask)
    assert outer.tolist() == [[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]]
    assert {tuple(corner) for corner in hole.tolist()} == {(3, 3), (6, 3), (6, 6), (3, 6)}


def test_round_trip_in_level_0_pixels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    mask = ndimage.gaussian_filter(rng.random((60, 80)), 3) > 0.5
    collection = geojson_from_mask(mask, 16.0, 16.0)
    assert collection["type"] == "FeatureCollection"
    path = tmp_path / "tissue.geojson"
    path.write_text(json.dumps(collection))
    assert np.array_equal(mask_from_geojson(path, (80 * 16, 60 * 16), (60, 80)), mask)
    finer = mask_from_geojson(path, (80 * 16, 60 * 16), (120, 160))
    assert np.array_equal(finer, np.kron(mask, np.ones((2, 2))).astype(np.bool_))


def test_coordinates_are_scaled_by_axis() -> None:
    mask = np.zeros((10, 10), np.bool_)
    mask[2:4, 3:8] = True
    (only,) = geojson_from_mask(mask, 10.0, 100.0)["features"]
    ring = only["geometry"]["coordinates"][0]
    assert [min(x for x, _ in ring), max(x for x, _ in ring)] == [30, 80]
    assert [min(y for _, y in ring), max(y for _, y in ring)] == [200, 400]
    assert only["properties"] == {"objectType": "annotation", "classification": {"name": "Tissue"}}
    json.dumps(only)


def test_an_empty_mask_has_no_features() -> None:
    assert geojson_from_mask(np.zeros((5, 5), np.bool_), 1, 1)["features"] == []
