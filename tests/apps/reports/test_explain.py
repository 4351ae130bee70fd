"""Evidence shown: the numbers are those of the search, the squares lie on the slides, and QuPath can read it."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from slideseek.errors import UsageError
from slideseek.searching.evidence import Evidence, Pair
from slideseek.searching.patch_squares import PatchSquares
from slideseek_apps.reports.evidence_geojson import side_geojson
from slideseek_apps.reports.evidence_pictures import evidence_panel, heat_map
from slideseek_apps.reports.explained_match import Explained, PixelSource, Side
from slideseek_apps.reports.heat_colours import HeatScale
from slideseek_apps.reports.heat_map import Thumbnail, draw_heat
from slideseek_apps.reports.picture_sheet import UNITS_PER_INCH, Sheet, Words


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
        panel, heat = Image.open(files[0]), Image.open(files[1])
        assert panel.height > panel.width == 7 * 300 and round(panel.info["dpi"][0]) == 300
        assert heat.width == pytest.approx(10 * 300, abs=10)
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
    return evidence, Side("query", "s", fields, parts, {"s": PixelSource(Path("absent.png"))})


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
    distances = HeatScale.over(np.array([-7.0, -3.0]), np.array([-5.0]))
    np.testing.assert_allclose(distances.places(np.array([-7.0, -3.0, -5.0])), [0, 1, 0.5])
    signed = HeatScale.over(np.array([-0.1, 0.0]), np.array([0.2]))
    np.testing.assert_allclose(signed.places(np.array([-0.1, 0.0, 0.2])), [0.25, 0.5, 1])
    assert (HeatScale.over(np.full(2, -4.0)).places(np.full(2, -4.0)) == 1).all()
    blue, pale, orange = HeatScale.over(np.array([-1.0, 1.0])).colours(np.array([-1.0, 0.0, 1.0])).astype(int)
    assert blue[2] > blue[0] and orange[0] > orange[2] and np.ptp(pale) < 10
    assert HeatScale.over().places(np.zeros(0)).shape == (0,)


def test_the_legend_says_what_is_at_its_ends():
    assert HeatScale.over(np.array([-416.0, -317.0])).ends("pairs") == (
        "least similar: distance 416",
        "most similar: distance 317",
    )
    assert HeatScale.over(np.array([-0.0, -3.0])).ends("pairs")[1] == "most similar: distance 0"
    assert HeatScale.over(np.array([-0.1, 0.2])).ends("contributions") == (
        "makes less similar: -0.2",
        "makes more similar: +0.2",
    )
    assert HeatScale.over(np.array([0.1, 0.2])).ends("removals")[0] == "the distance grows least: +0.1"


def test_the_heat_map_colours_the_patches_and_leaves_the_rest(pairs):
    evidence, side = pairs
    white = Thumbnail(np.full((80, 80, 3), 255, np.uint8), scale=2.0, mpp=None)
    sheet = Sheet(80, 80, UNITS_PER_INCH)
    assert draw_heat(sheet, (0, 0), 80, white, side, "s", HeatScale.over(evidence.parts, evidence.hit_parts)) == 80
    drawn = sheet.pixels()
    assert (drawn[8, 8] != 255).any() and (drawn[48, 28] != 255).any()
    assert (drawn[8, 8] != drawn[48, 28]).any(), "a strong and a weak patch differ"
    touched = (drawn != 255).any(axis=2)
    assert touched.sum() == 2 * 16 * 16


def test_one_scale_for_both_slides(pairs):
    """A patch as good as one of the other slide has its colour, though it is the best of its own."""
    evidence, side = pairs
    other = Side("hit", "h", side.squares, np.array([-7.0, -9.0]), {"h": PixelSource(Path("absent.png"))})
    both = Evidence("pairs", 5.0, side.squares, side.squares, evidence.pairs, side.parts, other.parts)
    weakest, best = (side_geojson(both, one, name)["features"] for one, name in ((side, "s"), (other, "h")))
    assert weakest[1]["properties"]["color"] == best[0]["properties"]["color"]
    assert best[0]["properties"]["measurements"]["slideseek heat"] < 0.5


@pytest.mark.parametrize("engine", ["bars", "mean"])
def test_pictures_for_print_name_engine_scale_and_units(tiny_archive, tmp_path, slideseek, engine):
    done = slideseek("explain", "s0", "s2", "-a", tiny_archive, "--engine", engine, "-o", tmp_path / "m.svg")
    assert done.code == 0, done.err
    svg = ElementTree.fromstring((tmp_path / "m.svg").read_text())
    assert svg.get("width") == "7in"
    words = [text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert words[1].startswith(f"Engine {engine}: ")
    assert sum(word.endswith("µm") and "bars" not in word for word in words) == 2, "a bar on each slide"
    assert any(word.endswith("; bars: 10 µm") for word in words), "and one length for all patches"
    ends = ("least similar: distance", "most similar: distance") if engine == "bars" else ("least:", "most:")
    if any("less similar" in word for word in words):
        ends = ("makes less similar", "makes more similar")
    assert [sum(end in word for word in words) for end in ends] == [1, 1], "one legend for both slides"
    ranked = [word.split()[0] for word in words if word[:2] in ("Q1", "H1", "1.")]
    if engine == "bars":
        assert ranked == ["1."]
    else:
        assert {"Q1", "H1"} <= set(ranked), "two rankings, not pairs"
        assert sum("ranked for this slide alone" in word for word in words) == 2


def test_other_formats_and_resolutions(tiny_archive, tmp_path, slideseek):
    pytest.importorskip("cairosvg")
    wrote = ("-o", tmp_path / "m.tif", "--heatmap", tmp_path / "m.pdf", "--dpi", 150)
    done = slideseek("explain", "s0", "s2", "-a", tiny_archive, *wrote)
    assert done.code == 0, done.err
    assert (tmp_path / "m.pdf").read_bytes().startswith(b"%PDF")
    assert Image.open(tmp_path / "m.tif").width == 7 * 150
    many = Sheet(900, 100_000, 1200)
    with pytest.raises(UsageError, match="too large"):
        many.pixels()


def test_a_pdf_without_cairosvg_says_what_to_install(tiny_archive, tmp_path, slideseek, monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    done = slideseek("explain", "s0", "s2", "-a", tiny_archive, "-o", tmp_path / "m.pdf")
    assert done.code != 0 and "slideseek[figures]" in done.err and not (tmp_path / "m.pdf").exists()


def test_micrometres_are_written_as_such():
    """The font has no µ: it is a u with a stem below the line."""
    drawn = {}
    for text in ("u", "µ"):
        sheet = Sheet(40, 60, UNITS_PER_INCH, [Words(5, 30, text, 40)])
        drawn[text] = np.all(sheet.pixels() < 128, axis=2)
    assert (drawn["µ"] >= drawn["u"]).all()
    below = drawn["µ"][31:].sum(axis=1)
    assert not drawn["u"][32:].any() and 3 <= below.max() <= 6 and (below > 0).sum() >= 6, "a thin stem"


def test_text_has_no_picture_and_both_signs_have_their_own_scale(tiny_slides):
    """A query in words: only the hit is drawn, with the legend of parts for and against."""
    slide = sorted(tiny_slides.glob("s2.*"))[0]
    none = PatchSquares(np.zeros((0, 2), np.int32), np.zeros(0))
    squares = PatchSquares(np.array([[0, 0], [64, 64]], np.int32), np.array([64.0, 64.0]))
    parts = np.array([-0.1, 0.4])
    evidence = Evidence("contributions", 0.3, none, squares, (), np.zeros(0), parts)
    words = Side("query", "pink stripes", none, np.zeros(0), {})
    found = Explained(evidence, words, Side("hit", "s2", squares, parts, {"s2": PixelSource(slide, 1.0)}))
    for sheet in (evidence_panel(found, "e", dpi=UNITS_PER_INCH), heat_map(found, "e", dpi=UNITS_PER_INCH)):
        shown = [item.text for item in sheet.items if isinstance(item, Words)]
        assert shown[0] == "pink stripes  and  s2" and "makes less similar: -0.4" in shown
        assert sum(word.endswith("µm") and "bars" not in word for word in shown) == 1
        assert sheet.pixels().shape[1] == sheet.width
