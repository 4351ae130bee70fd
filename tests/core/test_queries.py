"""Queries by region, patch image and case."""

import numpy as np
import pytest
from PIL import Image

from slideseek.archive.archive import Archive
from slideseek.building.index_store import open_engine
from slideseek.errors import SlideseekError, UsageError
from slideseek.plugins import load_registry
from slideseek.queries import Region
from slideseek.search import Searcher
from slideseek.slides.image_reader import ArraySlide
from slideseek.slides.region import RegionSlide


@pytest.fixture
def searcher(tiny_archive):
    with Archive(tiny_archive) as archive:
        yield Searcher(archive, open_engine(archive, archive.config.engine("bars"), load_registry()))


def best(searcher, query):
    (found,) = searcher.search(query, 1, include_same_patient=True).found
    return found.hit.slide_id, found.hit.distance


def test_a_region_of_a_slide_finds_that_slide_first_when_it_is_not_left_out(searcher, tiny_slides):
    whole = searcher.ask.stored("s1")
    part = searcher.ask.region("s1", Region(64, 64, 128, 128))
    assert len(part.code) == 4 < len(whole.code)
    assert best(searcher, part) == ("s1", 0.0)
    found = searcher.search(part, 99).found
    assert "s1" not in {f.hit.slide_id for f in found}
    from_file = searcher.ask.region(str(tiny_slides / "s1.png"), Region(64, 64, 128, 128), mpp=1.0)
    assert np.array_equal(from_file.code.rows, part.code.rows)


def test_a_region_in_microns_is_the_same_region(searcher):
    pixels = searcher.ask.region("s1", Region.parse("64,64,128,128"))
    microns = searcher.ask.region("s1", Region.parse("64, 64, 128, 128 um"))
    assert np.array_equal(pixels.code.rows, microns.code.rows)
    assert Region(10, 20, 30, 40, microns=True).pixels(0.5) == (20, 40, 60, 80)


@pytest.mark.parametrize("text", ["1,2,3", "a,b,c,d", "", "1;2;3;4"])
def test_a_region_that_cannot_be_read(text):
    with pytest.raises(UsageError, match="cannot read the region"):
        Region.parse(text)


@pytest.mark.parametrize("region", [(300, 300, 100, 100), (-1, 0, 10, 10), (0, 0, 0, 5), (0, 0, 10, 1000)])
def test_a_region_outside_the_slide(searcher, region):
    with pytest.raises(UsageError, match="is not inside slide 's1' of 320 x 320 px"):
        searcher.ask.region("s1", Region(*region))


def test_a_region_without_tissue(searcher):
    with pytest.raises(SlideseekError, match="no tissue found"):
        searcher.ask.region("s1", Region(0, 0, 30, 30))


def test_a_patch_image_finds_its_slide(searcher, tiny_slides, tmp_path):
    with Image.open(tiny_slides / "s2.png") as image:
        image.crop((64, 64, 128, 128)).save(tmp_path / "patch.png")
    assert best(searcher, searcher.ask.patch(tmp_path / "patch.png")) == ("s2", 0.0)
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(SlideseekError, match=r"bad.png"):
        searcher.ask.patch(tmp_path / "bad.png")


def test_a_case_is_asked_with_all_its_slides(tiny_archive, tiny_slides, slideseek):
    manifest = tiny_slides / "manifest.csv"
    manifest.write_text(manifest.read_text().replace(",p2,", ",p0,"))
    slideseek("add", tiny_slides, "--manifest", manifest, "-a", tiny_archive)
    with Archive(tiny_archive) as archive:
        searcher = Searcher(archive, open_engine(archive, archive.config.engine("bars"), load_registry()))
        case = searcher.ask.case("p0")
        one, two = searcher.ask.stored("s0"), searcher.ask.stored("s2")
        assert sorted(map(bytes, case.code.rows)) == sorted(map(bytes, np.concatenate([one.code.rows, two.code.rows])))
        found = {f.hit.slide_id for f in searcher.search(case, 99).found}
        assert found == {"s1", "s3", "s4", "s5", "s6", "s7"}
        with pytest.raises(UsageError, match="no slide of patient 'nobody'"):
            searcher.ask.case("nobody")


def test_a_region_shows_what_the_slide_shows():
    rng = np.random.default_rng(0)
    slide = ArraySlide(rng.integers(0, 255, (200, 300, 3)).astype(np.uint8), mpp=0.5, slide_id="s")
    part = RegionSlide(slide, 40, 30, 100, 60)
    assert part.dimensions == (100, 60) and part.mpp == 0.5
    assert np.array_equal(part.read((5, 7), 20, 0.5), slide.read((45, 37), 20, 0.5))
    assert np.array_equal(part.thumbnail(100), slide.read((40, 30), 100, 0.5)[:60])
    assert part.thumbnail(50).shape == (30, 50, 3)
