"""Regions of a slide: rectangles and annotations."""

import json

import numpy as np
import pytest

from slideseek.errors import SlideError, UsageError
from slideseek.slides.area import Annotations, Area, Region
from slideseek.slides.region_slide import RegionSlide
from slideseek_components.pixels.array_slide import ArraySlide

SQUARE = [[10, 10], [20, 10], [20, 20], [10, 20], [10, 10]]
FAR = [[50, 50], [60, 50], [60, 60], [50, 60]]


def slide(width=100, height=80):
    return ArraySlide(np.full((height, width, 3), 100, np.uint8), mpp=0.5, slide_id="s")


def polygon(*rings):
    return {"type": "Polygon", "coordinates": list(rings)}


def feature(geometry, name=None, kind=None):
    known = {"objectType": "annotation"} | ({"name": name} if name else {})
    return {"type": "Feature", "geometry": geometry, "properties": known | ({"classification": kind} if kind else {})}


def written(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.fixture
def three(tmp_path):
    """A file as QuPath exports it: a named annotation, one of a class, and a line."""
    features = [
        feature(polygon(SQUARE), name="mine", kind={"name": "Tumor", "color": [1, 2, 3]}),
        feature({"type": "MultiPolygon", "coordinates": [[FAR]]}, kind={"name": "Stroma"}),
        feature({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, name="ruler"),
    ]
    return written(tmp_path / "three.geojson", {"type": "FeatureCollection", "features": features})


def test_annotations_are_chosen_by_name_or_class(three):
    assert Annotations.read(three, "mine").area(slide()).box == (10, 10, 10, 10)
    assert Annotations.read(three, "Tumor").area(slide()).box == (10, 10, 10, 10)
    assert Annotations.read(three, "Stroma").area(slide()).box == (50, 50, 10, 10)
    assert Annotations.read(three, "mine").name == "annotation 'mine' of three.geojson"
    with pytest.raises(UsageError, match=r"three\.geojson has no annotation 'Tumour': did you mean 'Tumor'"):
        Annotations.read(three, "Tumour")
    with pytest.raises(UsageError, match="it has Stroma, Tumor, mine, ruler"):
        Annotations.read(three, "zzzzzz")
    with pytest.raises(SlideError, match="only Polygon and MultiPolygon can outline a region"):
        Annotations.read(three)
    with pytest.raises(SlideError, match="LineString"):
        Annotations.read(three, "ruler")


@pytest.mark.parametrize(
    "value",
    [
        [feature(polygon(SQUARE)), feature(polygon(FAR))],
        {"type": "FeatureCollection", "features": [feature(polygon(SQUARE), "a"), feature(polygon(FAR), "b")]},
        {"type": "GeometryCollection", "geometries": [polygon(SQUARE), polygon(FAR)]},
        feature({"type": "MultiPolygon", "coordinates": [[SQUARE], [FAR]]}),
    ],
)
def test_several_annotations_are_united(tmp_path, value):
    area = Annotations.read(written(tmp_path / "a.json", value)).area(slide())
    assert area.box == (10, 10, 50, 50)
    points = np.array([[15.0, 15], [55, 55], [35, 35], [15, 55]])
    assert area.holds(points).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (polygon([[1, 1], [2, 2], [3, 3]]), "enclose no area"),
        (polygon([[5, 5], [5, 5], [5, 5]]), "enclose no area"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [NaN, 1], [1, 1]]]}', "finite"),
        (polygon([[0, 0], [1e15, 0], [1, 1]]), "finite"),
        (polygon([[0, 0], [9, 9]]), "at least three"),
        (polygon(), "without a ring"),
        ({"type": "FeatureCollection", "features": []}, "contains no annotation"),
        ({"type": "FeatureCollection"}, "no list of features"),
        (feature(None), "without a GeoJSON type"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[[[[[[{}]]]]]]", "too deeply|without a GeoJSON type"),
        ('"text"', "without a GeoJSON type"),
    ],
)
def test_a_file_that_outlines_nothing(tmp_path, value, message):
    with pytest.raises(SlideError, match=message):
        Annotations.read(written(tmp_path / "bad.geojson", value))


def test_a_file_that_is_missing_or_huge(tmp_path, monkeypatch):
    with pytest.raises(SlideError, match=r"none\.geojson cannot be read"):
        Annotations.read(tmp_path / "none.geojson")
    monkeypatch.setattr("slideseek.slides.geojson.MAX_GEOJSON_BYTES", 10)
    with pytest.raises(SlideError, match="simplify the annotations"):
        Annotations.read(written(tmp_path / "huge.geojson", polygon(SQUARE)))


def test_an_annotated_area_holds_what_its_polygons_hold():
    hole = [[13, 13], [17, 13], [17, 17], [13, 17]]
    area = Area(10, 10, 50, 50, ([np.array(SQUARE, float), np.array(hole, float)], [np.array(FAR, float)]))
    points = np.array([[11.0, 11], [15, 15], [55, 55], [40, 40]])
    assert area.holds(points).tolist() == [True, False, True, False]


def test_a_rectangle_holds_what_lies_in_it():
    area = Region(10, 10, 20, 10).area(slide())
    assert area.holds(np.array([[10.0, 10], [30, 20], [31, 15], [15, 25]])).tolist() == [True, True, False, False]
    assert Region(5, 5, 10, 10, microns=True).area(slide()).box == (10, 10, 20, 20)


@pytest.mark.parametrize(("brightness", "empty"), [(150, 255), (5, 0)])
def test_outside_the_annotation_a_region_shows_empty_background(brightness, empty):
    image = ArraySlide(np.full((80, 100, 3), brightness, np.uint8), mpp=0.5, slide_id="s")
    triangle = [np.array([[20.0, 20], [60, 20], [20, 60]])]
    part = RegionSlide(image, 20, 20, 40, 40, [triangle])
    thumbnail = part.thumbnail(40)
    assert (thumbnail[2, 2] == brightness).all() and (thumbnail[38, 38] == empty).all()
    assert 0.45 < (thumbnail == brightness).mean() < 0.55
    assert (part.read((38, 38), 2, 0.5) == brightness).all(), "pixels of patches are the slide's own"
