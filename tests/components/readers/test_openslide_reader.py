"""Slides through OpenSlide: damage, threads, backgrounds, real formats."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
from PIL import Image

from slideseek.errors import SlideError
from slideseek.interfaces import Slide
from slideseek.slides.reader import open_slide
from slideseek.types import UInt8
from slideseek_components.pixels.pyramid import as_pyramid
from slideseek_components.readers import openslide_reader

TILE = 128


def texture(width: int = 512, height: int = 512) -> UInt8:
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def damage_tile(path: Path, number: int, page: int = 0) -> None:
    """Overwrite the JPEG data of one tile."""
    with tifffile.TiffFile(path) as tiff:
        offset, count = tiff.pages[page].dataoffsets[number], tiff.pages[page].databytecounts[number]
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\x00" * count)


@pytest.fixture
def damaged(write_tiff: Callable[..., Path]) -> Path:
    """A slide of 4 x 4 JPEG tiles whose sixth tile, at (128, 128), is destroyed."""
    path = write_tiff("damaged.svs", texture(), aperio="AppMag = 20|MPP = 0.5", compression="jpeg", tile=TILE)
    damage_tile(path, 5)
    return path


def test_a_damaged_tile_fails_its_region_only(damaged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with open_slide(damaged) as slide:
        before = slide.read((0, 0), 100, 0.5)
        with pytest.raises(SlideError) as caught:
            slide.read((140, 140), 64, 0.5)
        assert slide.unreadable == 1
        assert "(140" not in caught.value.fix
        assert "'damaged'" in caught.value.cause
        assert "\n" not in str(caught.value)
        assert np.array_equal(slide.read((0, 0), 100, 0.5), before)
        assert slide.read((300, 300), 100, 0.5).std() > 10
        with pytest.raises(SlideError):
            slide.read((100, 100), 64, 0.5)
        assert slide.unreadable == 2
    assert capfd.readouterr().err == ""


def test_a_thumbnail_survives_a_damaged_tile(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIDESEEK_ISOLATION", "off")  # what is patched is patched in this process
    monkeypatch.setattr("slideseek_components.pixels.pyramid._SMALLEST_BLOCK", 64)
    with open_slide(damaged) as slide:
        thumbnail = slide.thumbnail(256)
        assert slide.unreadable > 0
    with open_slide(damaged) as intact:
        expected = intact.read((256, 0), 128, 1.0)
    assert np.abs(thumbnail[:128, 128:].astype(int) - expected).max() <= 1
    assert (thumbnail[80:112, 80:112] == 255).all()


def test_threads_do_not_take_the_blame_for_each_other(damaged: Path) -> None:
    good = [(x, y) for x in range(256, 448, 24) for y in range(0, 448, 24)]
    bad = [(140 + step, 140) for step in range(20)]
    with open_slide(damaged) as slide, ThreadPoolExecutor(4) as pool:
        expected = {xy: slide.read(xy, 32, 0.5) for xy in good}
        orders = good + bad + good
        results = list(pool.map(lambda xy: _try(slide, xy), np.random.default_rng(1).permutation(orders).tolist()))
        assert sum(image is None for _, image in results) == len(bad)
        assert slide.unreadable == len(bad)
        for xy, image in results:
            if image is not None:
                assert np.array_equal(image, expected[xy])


def _try(slide: Slide, xy: list[int]) -> tuple[tuple[int, int], UInt8 | None]:
    place = (xy[0], xy[1])
    try:
        return place, slide.read(place, 32, 0.5)
    except SlideError:
        return place, None


def test_a_slide_that_vanishes_is_a_slide_error(damaged: Path) -> None:
    with open_slide(damaged) as slide:
        damaged.unlink()
        with pytest.raises(SlideError):
            slide.read((140, 140), 64, 0.5)


def test_closed(write_tiff: Callable[..., Path]) -> None:
    slide = open_slide(write_tiff(aperio="MPP = 0.5"))
    slide.close()
    with pytest.raises(SlideError, match="closed"):
        slide.read((0, 0), 10, 0.5)


def test_attributes_of_an_aperio_slide(write_tiff: Callable[..., Path]) -> None:
    with as_pyramid(open_slide(write_tiff(aperio="AppMag = 20|MPP = 0.5", levels=2))) as slide:
        assert isinstance(slide, Slide)
        assert (slide.format, slide.objective, slide.dimensions) == ("aperio", 20.0, (96, 64))
        assert slide.levels == ((96, 64, 1.0), (48, 32, 2.0))
        assert slide.resolution.source == "openslide.mpp-x"


WHITE = (255, 255, 255)


@pytest.mark.parametrize(
    ("text", "colour"), [("", WHITE), ("FFFFFF", WHITE), ("10fa02", (16, 250, 2)), ("12", WHITE), ("zz", WHITE)]
)
def test_background_colour(text: str, colour: tuple[int, int, int]) -> None:
    assert openslide_reader._colour(text) == colour


def test_the_background_colour_of_the_file_shows_outside(
    write_tiff: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIDESEEK_ISOLATION", "off")  # what is patched is patched in this process
    monkeypatch.setattr(openslide_reader, "_colour", lambda _: (1, 2, 3))
    with open_slide(write_tiff(aperio="MPP = 0.5")) as slide:
        got = slide.read((-10, 0), 20, 0.5)
    assert got[5, 2].tolist() == [1, 2, 3]
    assert got[5, 15].tolist() == [200, 200, 200]


# --- real slides ----------------------------------------------------------------------------------------------------


def test_dicom_equals_the_svs_it_was_made_from(shared_data: Path) -> None:
    formats = shared_data / "slides-formats"
    with open_slide(formats / "CMU-1-Small-Region.svs") as svs:
        for path in sorted((formats / "cmu-dicom").glob("*.dcm")):
            with as_pyramid(open_slide(path)) as dicom:
                assert dicom.format == "dicom"
                assert (dicom.dimensions, dicom.mpp) == (svs.dimensions, svs.mpp)
                difference = np.abs(dicom.read((900, 900), 300, 0.7).astype(int) - svs.read((900, 900), 300, 0.7))
                assert difference.mean() < 5


def test_the_thumbnail_is_not_the_label_or_the_macro(shared_data: Path) -> None:
    path = shared_data / "slides-formats" / "CMU-1-Small-Region.svs"
    with open_slide(path) as slide, openslide.OpenSlide(path) as reference:
        thumbnail = slide.thumbnail(512)
        assert thumbnail.shape == (512, 383, 3)
        level = reference.read_region((0, 0), 0, reference.dimensions).convert("RGB")
        expected = np.asarray(level.resize((383, 512), Image.Resampling.BOX))
        assert np.abs(thumbnail.astype(int) - expected).mean() < 4


def test_real_slides_agree_with_openslide_at_level_0(shared_data: Path) -> None:
    for path in sorted((shared_data / "slides-atlas").glob("*.tif")):
        with as_pyramid(open_slide(path)) as slide, openslide.OpenSlide(path) as reference:
            assert slide.owner is not None and slide.owner.use == "openslide"
            assert [level[:2] for level in slide.levels] == list(reference.level_dimensions)
            assert [level.downsample for level in slide.levels] == [1, 2, 4, 8, 16]
            got = slide.read((1200, 1300), 200, slide.mpp)
            expected = np.asarray(reference.read_region((1200, 1300), 0, (200, 200)).convert("RGB"))
            assert np.array_equal(got, expected)


@pytest.mark.parametrize("corner", [(100, 100), (1500, 1500), (2400, 2450)])
def test_levels_of_a_real_slide_lie_where_level_0_lies(corner: tuple[int, int], shared_data: Path) -> None:
    # The same field from the pyramid and from level 0 of an odd-sized slide: drift would show far from the origin.
    with as_pyramid(open_slide(shared_data / "slides-atlas" / "carcinogenesis__HE.tif")) as slide:
        coarse = slide.read(corner, 200, 4.1).mean(axis=2).ravel()
        slide.levels = slide.levels[:1]
        alike = {
            (dx, dy): np.corrcoef(coarse, slide.read((corner[0] + dx, corner[1] + dy), 200, 4.1).mean(axis=2).ravel())[
                0, 1
            ]
            for dx in (-2, -1, 0, 1, 2)
            for dy in (-2, -1, 0, 1, 2)
        }
    assert max(alike, key=lambda shift: alike[shift]) == (0, 0)
    assert alike[0, 0] > 0.95
