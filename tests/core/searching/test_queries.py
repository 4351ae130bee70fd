"""Queries by region, patch image and case."""

import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from slideseek.archive.archive import Archive
from slideseek.errors import SlideseekError, UsageError
from slideseek.searching.queries import Region
from slideseek.searching.searcher import Searcher
from slideseek.slides.area import Annotations
from slideseek.slides.region_slide import RegionSlide
from slideseek_components.pixels.array_slide import ArraySlide


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG_OF_A_BOMB = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
PNG_OF_A_BOMB += chunk(b"IDAT", zlib.compress(bytes(1000)))
"""The head of a PNG that claims 60,000 x 60,000 pixels."""


@pytest.fixture
def searcher(tiny_archive):
    with Archive(tiny_archive) as archive:
        yield Searcher.open(archive, "bars")


def best(searcher, query):
    (found,) = searcher.search(query, 1, include_same_patient=True).found
    return found.hit.slide_id, found.hit.distance


def test_a_region_of_a_slide_finds_that_slide_first_when_it_is_not_left_out(searcher, tiny_slides):
    whole = searcher.queries.stored("s1")
    part = searcher.queries.region("s1", Region(64, 64, 128, 128))
    assert len(part.code) == 4 < len(whole.code)
    assert best(searcher, part) == ("s1", 0.0)
    found = searcher.search(part, 99).found
    assert "s1" not in {f.hit.slide_id for f in found}
    from_file = searcher.queries.region(str(tiny_slides / "s1.png"), Region(64, 64, 128, 128), mpp=1.0)
    assert np.array_equal(from_file.code.rows, part.code.rows)
    assert from_file.record == part.record and "s1.png is slide 's1' of the archive" in from_file.notes
    with pytest.raises(UsageError, match="'s11' is neither a slide of this archive nor a file: did you mean 's1'"):
        searcher.queries.region("s11", Region(64, 64, 128, 128))


def test_a_region_in_microns_is_the_same_region(searcher):
    pixels = searcher.queries.region("s1", Region.parse("64,64,128,128"))
    microns = searcher.queries.region("s1", Region.parse("64, 64, 128, 128 um"))
    assert np.array_equal(pixels.code.rows, microns.code.rows)
    assert Region(10, 20, 30, 40, microns=True).pixels(0.5) == (20, 40, 60, 80)


@pytest.mark.parametrize(
    "text", ["1,2,3", "a,b,c,d", "", "1;2;3;4", "1,2,3,4,5", "nan,0,9,9", "0,0,inf,9", "0,0,1e999,9 um"]
)
def test_a_region_that_cannot_be_read(text):
    with pytest.raises(UsageError, match="cannot read the region"):
        Region.parse(text)


@pytest.mark.parametrize("region", [(300, 300, 100, 100), (-1, 0, 10, 10), (0, 0, 0, 5), (0, 0, 10, 1000)])
def test_a_region_outside_the_slide(searcher, region):
    with pytest.raises(UsageError, match="is not inside slide 's1' of 320 x 320 px"):
        searcher.queries.region("s1", Region(*region))


def test_a_region_without_tissue(searcher):
    with pytest.raises(SlideseekError, match="no tissue found"):
        searcher.queries.region("s1", Region(0, 0, 30, 30))


def drawn(path, *rings, name="", kind=None):
    feature = {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [list(ring) for ring in rings]},
        "properties": {"objectType": "annotation", "name": name, "classification": {"name": kind} if kind else None},
    }
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    return path


def box(x, y, width, height):
    return [[x, y], [x + width, y], [x + width, y + height], [x, y + height], [x, y]]


def test_an_annotation_of_a_slide_finds_that_slide_first(searcher, tmp_path):
    # An L of three patches of 64 px in a square of four.
    corner = [[64, 64], [192, 64], [192, 128], [128, 128], [128, 192], [64, 192]]
    part = searcher.queries.region("s1", Annotations.read(drawn(tmp_path / "l.geojson", corner)))
    assert part.squares().xy.tolist() == [[64, 64], [128, 64], [64, 128]]
    assert best(searcher, part) == ("s1", 0.0)
    assert part.record.id == "s1" and part.record.patient == "p1"


def test_patches_in_the_hole_of_an_annotation_are_not_asked_with(searcher, tmp_path):
    ring = drawn(tmp_path / "ring.geojson", box(64, 64, 192, 192), box(128, 128, 64, 64))
    part = searcher.queries.region("s1", Annotations.read(ring))
    assert len(part.code) == 8 and [128, 128] not in part.squares().xy.tolist()


def test_a_rectangle_drawn_in_qupath_is_that_rectangle(searcher, tmp_path):
    as_file = searcher.queries.region("s1", Annotations.read(drawn(tmp_path / "box.geojson", box(64, 64, 128, 128))))
    assert np.array_equal(as_file.code.rows, searcher.queries.region("s1", Region(64, 64, 128, 128)).code.rows)


def test_an_annotation_over_the_border_is_cut_and_one_outside_refused(searcher, tmp_path):
    over = searcher.queries.region("s1", Annotations.read(drawn(tmp_path / "over.geojson", box(-50, -50, 242, 242))))
    assert (over.squares().xy >= 0).all() and (over.squares().xy + 64 <= 192).all()
    outside = Annotations.read(drawn(tmp_path / "out.geojson", box(400, 0, 100, 100), name="mine"))
    with pytest.raises(UsageError, match=r"annotation 'mine' of out\.geojson lies outside slide 's1' of 320 x 320 px"):
        searcher.queries.region("s1", outside)


def test_a_region_smaller_than_a_patch_takes_the_patch_around_it(searcher, tmp_path):
    (tiny,) = [searcher.queries.region("s1", Region(150, 140, 20, 30))]
    assert tiny.squares().xy.tolist() == [[128, 123]]
    assert any("smaller than a patch: 64 x 64 µm around it" in note for note in tiny.notes)
    ring = drawn(tmp_path / "thin.geojson", box(100, 100, 40, 40), box(102, 102, 36, 36))
    with pytest.raises(SlideseekError, match="no patch of 64 px has its centre in the region of 's1'"):
        searcher.queries.region("s1", Annotations.read(ring))


def test_a_region_with_less_tissue_per_patch_than_the_engine_asks_for_is_searched_with(searcher, tmp_path):
    """A sliver holds far less than half a patch; so does a frame of glands around a lumen."""
    sliver = [[64, 64], [256, 256], [256, 250]]
    part = searcher.queries.region("s1", Annotations.read(drawn(tmp_path / "sliver.geojson", sliver)))
    assert len(part.code) and any("as much tissue as the engine asks for" in note for note in part.notes)
    frame = [[64, 64], [200, 64], [200, 200], [64, 200]]
    hole = [[90, 90], [174, 90], [174, 174], [90, 174]]
    part = searcher.queries.region("s1", Annotations.read(drawn(tmp_path / "frame.geojson", frame, hole)))
    centres = part.squares().xy + 32
    assert ((centres > 64) & (centres < 200)).all() and len(part.code) >= 1


def test_a_patch_image_finds_its_slide(searcher, tiny_slides, tmp_path):
    with Image.open(tiny_slides / "s2.png") as image:
        image.crop((64, 64, 128, 128)).save(tmp_path / "patch.png")
    assert best(searcher, searcher.queries.patch(tmp_path / "patch.png")) == ("s2", 0.0)
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(SlideseekError, match=r"bad.png"):
        searcher.queries.patch(tmp_path / "bad.png")


def test_a_patch_image_may_be_larger_but_not_smaller_than_a_patch(searcher, tiny_slides, tmp_path):
    with Image.open(tiny_slides / "s2.png") as image:
        image.crop((64, 64, 128, 128)).save(tmp_path / "patch.png")
        image.crop((64, 64, 128, 128)).resize((128, 128), Image.Resampling.NEAREST).save(tmp_path / "twice.png")
        image.crop((44, 54, 148, 138)).save(tmp_path / "around.png")
        image.crop((64, 64, 127, 200)).save(tmp_path / "small.png")
    exact = searcher.queries.patch(tmp_path / "patch.png").code.rows
    assert best(searcher, searcher.queries.patch(tmp_path / "twice.png"))[0] == "s2", "the same field in more pixels"
    assert np.array_equal(searcher.queries.patch(tmp_path / "around.png", mpp=1.0).code.rows, exact), "the middle 64 µm"
    assert not np.array_equal(searcher.queries.patch(tmp_path / "around.png").code.rows, exact)
    small = r"small\.png is 63 x 136 px, smaller than a patch of engine 'bars': cut a patch of at least 64 x 64 px"
    with pytest.raises(UsageError, match=small):
        searcher.queries.patch(tmp_path / "small.png")
    with pytest.raises(UsageError, match=r"at least 128 x 128 px that shows 64 x 64 µm"):
        searcher.queries.patch(tmp_path / "around.png", mpp=0.5)


def test_a_patch_that_is_no_image(searcher, tmp_path):
    for name, content, message in (
        ("text.png", b"no image at all", "is not a slide that OpenSlide or Pillow can read"),
        ("empty.png", b"", "is empty"),
        ("bomb.png", PNG_OF_A_BOMB, "has more than 178,956,970 pixels"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SlideseekError, match=message):
            searcher.queries.patch(tmp_path / name)
    with pytest.raises(SlideseekError, match="is a folder"):
        searcher.queries.patch(tmp_path)
    with pytest.raises(SlideseekError, match="does not exist"):
        searcher.queries.patch(tmp_path / "nothing.png")


def test_a_case_is_asked_with_all_its_slides(tiny_archive, tiny_slides, slideseek):
    manifest = tiny_slides / "manifest.csv"
    manifest.write_text(manifest.read_text().replace(",p2,", ",p0,"))
    slideseek("add", tiny_slides, "--manifest", manifest, "-a", tiny_archive)
    with Archive(tiny_archive) as archive:
        searcher = Searcher.open(archive, "bars")
        case = searcher.queries.case("p0")
        one, two = searcher.queries.stored("s0"), searcher.queries.stored("s2")
        assert sorted(map(bytes, case.code.rows)) == sorted(map(bytes, np.concatenate([one.code.rows, two.code.rows])))
        found = {f.hit.slide_id for f in searcher.search(case, 99).found}
        assert found == {"s1", "s3", "s4", "s5", "s6", "s7"}
        with pytest.raises(UsageError, match="no slide of patient 'nobody'"):
            searcher.queries.case("nobody")


def test_a_region_shows_what_the_slide_shows():
    rng = np.random.default_rng(0)
    slide = ArraySlide(rng.integers(0, 255, (200, 300, 3)).astype(np.uint8), mpp=0.5, slide_id="s")
    part = RegionSlide(slide, 40, 30, 100, 60)
    assert part.dimensions == (100, 60) and part.mpp == 0.5
    assert np.array_equal(part.read((5, 7), 20, 0.5), slide.read((45, 37), 20, 0.5))
    assert np.array_equal(part.thumbnail(100), slide.read((40, 30), 100, 0.5)[:60])
    assert part.thumbnail(50).shape == (30, 50, 3)


SITES_CONFIG = """
[[engine]]
name       = "by-site"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "c-gmm-fv", components = 2 }
index      = { use = "cosine" }
"""


def test_a_conditioned_encoder_says_how_to_give_the_site(tmp_path, tiny_slides, slideseek, paint_tiny):
    """Files, regions and patches without a site or of one the model has not seen, and a stored slide without one."""
    archive = tmp_path / "sites"
    (tmp_path / "sites.toml").write_text(SITES_CONFIG)
    slideseek("init", archive, "--config", tmp_path / "sites.toml")
    slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", archive)
    assert slideseek("build", "-a", archive).code == 0
    paint_tiny(tmp_path / "new.png", 90, True)
    with Image.open(tmp_path / "new.png") as image:
        image.crop((64, 64, 128, 128)).save(tmp_path / "patch.png")
    new = tmp_path / "new.png"
    for query in ((new,), (new, "--region", "64,64,128,128"), (tmp_path / "patch.png", "--patch")):
        asked = ("search", *query, "-a", archive, "--mpp", "1.0")
        done = slideseek(*asked)
        assert done.code == 2 and "has no site, but encoder 'c-gmm-fv' needs a site it was fitted on" in done.err
        assert "the model knows colon, lung" in done.err and "fix: pass --site" in done.err
        done = slideseek(*asked, "--site", "liver")
        assert done.code == 2 and "is of site 'liver'" in done.err and "the model knows colon, lung" in done.err
        found = slideseek(*asked, "--site", "lung", "--json").json
        assert {hit["slide"]["site"] for hit in found["hits"]} == {"lung"}
    slideseek("add", new, "--mpp", "1.0", "-a", archive)
    slideseek("build", "-a", archive)
    for extra in ((), ("--region", "64,64,128,128")):
        done = slideseek("search", "new", *extra, "-a", archive)
        assert done.code == 2 and "'new' has no site" in done.err
        assert "add the slide again with a manifest that states its site; the model knows colon, lung" in done.err
