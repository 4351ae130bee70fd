"""Evidence shown: the numbers are those of the search, the squares lie on the slides, and QuPath can read it."""

import json

import numpy as np
import pytest
from PIL import Image

from slideseek.searching.evidence import Evidence, Pair
from slideseek.searching.patch_squares import PatchSquares
from slideseek_apps.reports.evidence_geojson import side_geojson
from slideseek_apps.reports.explained_match import PixelSource, Side
from slideseek_apps.reports.heat_colours import colours, strengths
from slideseek_apps.reports.heat_map import Thumbnail, draw_heat


def test_the_command_explains_pairs_and_parts(tiny_archive, tmp_path, slideseek):
    for engine in ("bars", "mean"):
        hit = slideseek("search", "s0", "-a", tiny_archive, "-k", "1", "--engine", engine, "--json").json["hits"][0]
        files = [tmp_path / f"{engine}.{name}" for name in ("png", "heat.png", "geojson")]
        arguments = ("s0", hit["slide"]["id"], "-a", tiny_archive, "--engine", engine)
        wrote = ("-o", files[0], "--heatmap", files[1], "--geojson", files[2])
        done = slideseek("explain", *arguments, *wrote, "--json")
        assert done.code == 0, done.err
        evidence = done.json["evidence"]
        if engine == "bars":
            assert np.median([pair["distance"] for pair in evidence["pairs"]]) == hit["distance"] == evidence["value"]
        else:
            for side in ("query", "hit"):
                assert sum(one["part"] for one in evidence[side]) == pytest.approx(1 - hit["distance"], abs=1e-5)
        assert Image.open(files[0]).height > Image.open(files[0]).width > 800
        assert Image.open(files[1]).width > 1500
        for side in ("query", "hit"):
            shapes = json.loads((tmp_path / f"{engine}.{side}.geojson").read_text())["features"]
            assert len(shapes) == evidence["patches"][side]
            corners = np.array([shape["geometry"]["coordinates"][0] for shape in shapes])
            assert corners.shape[1:] == (5, 2) and corners.min() >= 0 and corners.max() <= 320
            sides = corners[:, 2] - corners[:, 0]
            np.testing.assert_allclose(sides, 64)  # 64 px at 1 µm/px on a slide of 1 µm/px
        table = slideseek("explain", *arguments, "-n", "2")
        assert table.code == 0 and ("from the pairs of" if engine == "bars" else "add up to it") in table.out
    for option in ("-o", "--heatmap"):
        named = slideseek("explain", "s0", "s1", "-a", tiny_archive, option, tmp_path / "match.jpg")
        assert named.code == 2 and "end the name in .png" in named.err and not (tmp_path / "match.jpg").exists()
    wrong = slideseek("explain", "s0", "s77", "-a", tiny_archive)
    assert wrong.code == 2 and "did you mean" in wrong.err


def test_a_case_and_a_region_are_explained_where_they_lie(tiny_archive, tmp_path, slideseek):
    region = slideseek(
        *("explain", "s0", "s2", "-a", tiny_archive, "--region", "100,100,190,190"),
        *("-o", tmp_path / "r.png", "--geojson", tmp_path / "r.geojson"),
    )
    assert region.code == 0, region.err
    shapes = json.loads((tmp_path / "r.query.geojson").read_text())["features"]
    corners = np.array([shape["geometry"]["coordinates"][0][0] for shape in shapes])
    assert len(corners) and (corners + 32 >= 100).all() and (corners + 32 <= 290).all(), "in the frame of the slide"
    case = slideseek("explain", "p1", "s2", "-a", tiny_archive, "--case", "-o", tmp_path / "c.png", "--json")
    assert case.code == 0 and (tmp_path / "c.png").exists()
    assert case.json["evidence"]["pairs"][0]["query"]["slide_id"] == "s1"
    both = slideseek("explain", "p1", "s2", "-a", tiny_archive, "--case", "--patch")
    assert both.code == 2 and "cannot be used together" in both.err


@pytest.fixture
def pairs():
    fields = PatchSquares(np.array([[0, 0], [10, 20]], np.int32), np.array([8.0, 8.0]))
    parts = np.array([-3.0, -7.0])
    evidence = Evidence("pairs", 5.0, fields, fields, (Pair(0, 1, 3.0), Pair(1, 1, 7.0)), parts, parts)
    return evidence, Side("query", "s", fields, parts, {"s": PixelSource(None)})


def test_geojson_has_what_qupath_shows(pairs):
    evidence, side = pairs
    first, second = side_geojson(evidence, side, "s")["features"]
    assert second["geometry"]["coordinates"] == [[[10, 20], [18, 20], [18, 28], [10, 28], [10, 20]]]
    assert first["properties"]["objectType"] == "tile" and len(first["properties"]["color"]) == 3
    assert first["properties"]["measurements"] == {
        "slideseek rank": 1,
        "slideseek heat": 1.0,
        "slideseek distance": 3.0,
        "slideseek hit patch": 1,
    }
    assert second["properties"]["measurements"]["slideseek rank"] == 2


def test_colours_run_from_weak_to_strong_and_from_against_to_for():
    np.testing.assert_allclose(strengths(np.array([-7.0, -3.0, -5.0]), "pairs"), [0, 1, 0.5])
    np.testing.assert_allclose(strengths(np.array([-0.1, 0.0, 0.2]), "contributions"), [0.25, 0.5, 1])
    assert (strengths(np.zeros(2), "contributions") == 0.5).all() and (strengths(np.full(2, -4.0), "pairs") == 1).all()
    blue, pale, orange = colours(np.array([-1.0, 0.0, 1.0]), "contributions").astype(int)
    assert blue[2] > blue[0] and orange[0] > orange[2] and np.ptp(pale) < 10


def test_the_heat_map_colours_the_patches_and_leaves_the_rest(pairs):
    evidence, side = pairs
    white = Thumbnail(np.full((80, 80, 3), 255, np.uint8), scale=2.0, mpp=None)
    drawn = np.asarray(draw_heat(white, evidence, side, "s"))
    assert (drawn[8, 8] != 255).any() and (drawn[48, 28] != 255).any()
    assert (drawn[8, 8] != drawn[48, 28]).any(), "a strong and a weak patch differ"
    touched = (drawn != 255).any(axis=2)
    assert touched.sum() == 2 * 16 * 16
