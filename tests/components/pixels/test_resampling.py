"""Reads compared with what the pixels must be by an independent computation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slideseek.errors import SlideError
from slideseek.interfaces import Slide
from slideseek.slides.reader import open_slide
from slideseek.types import Float64, UInt8
from slideseek_components.pixels import resampling
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.pixels.levels import Level, choose_level, exact_downsample
from slideseek_components.pixels.pyramid import PyramidSlide, as_pyramid
from slideseek_components.pixels.resolution import Resolution

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def ramp(width: int, height: int) -> UInt8:
    """Return an image whose red grows linearly with x and whose green grows with y."""
    image = np.full((height, width, 3), 128, np.uint8)
    image[..., 0] = np.round(np.linspace(0, 255, width))[None, :]
    image[..., 1] = np.round(np.linspace(0, 255, height))[:, None]
    return image


def noise(width: int, height: int, seed: int = 0) -> UInt8:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def triangle(image: UInt8, low: tuple[float, float], scale: tuple[float, float], size: int) -> Float64:
    """Resample by the definition: a triangle of one output pixel on either side, normalised over the image."""

    def weights(start: float, step: float, length: int) -> Float64:
        centres = start + (np.arange(size) + 0.5) * step
        support = max(step, 1.0)
        raw = np.maximum(0.0, 1.0 - np.abs((np.arange(length) + 0.5)[None, :] - centres[:, None]) / support)
        return np.asarray(raw / raw.sum(axis=1, keepdims=True))

    across, down = weights(low[0], scale[0], image.shape[1]), weights(low[1], scale[1], image.shape[0])
    return np.asarray(np.einsum("yh,hwc,xw->yxc", down, image.astype(np.float64), across, optimize=True))


def test_array_slide_is_a_slide() -> None:
    with ArraySlide(ramp(40, 30), mpp=0.5, slide_id="x") as slide:
        assert isinstance(slide, Slide)
        assert (slide.id, slide.dimensions, slide.mpp) == ("x", (40, 30), 0.5)
        assert slide.levels == ((40, 30, 1.0),)


def test_the_same_resolution_gives_the_same_pixels() -> None:
    image = noise(90, 70)
    slide = ArraySlide(image, mpp=0.5)
    assert np.array_equal(slide.read((13, 21), 40, 0.5), image[21:61, 13:53])


@pytest.mark.parametrize("mpp", [0.2, 0.35, 0.5, 0.73, 1.0, 1.3, 2.2])
def test_reads_equal_the_definition(mpp: float) -> None:
    image = noise(400, 300)
    scale = mpp / 0.5
    got = ArraySlide(image, mpp=0.5).read((31, 17), 60, mpp)
    assert np.abs(got - triangle(image, (31, 17), (scale, scale), 60)).max() <= 1.01


def test_reads_equal_the_definition_when_pixels_are_not_square() -> None:
    image = noise(400, 300)
    slide = ArraySlide(image, mpp=Resolution(0.5, 0.55, "test"))
    got = slide.read((31, 17), 50, 1.2)
    assert np.abs(got - triangle(image, (31, 17), (1.2 / 0.5, 1.2 / 0.55), 50)).max() <= 1.01


@pytest.mark.parametrize("mpp", [0.41, 0.6, 1.1, 1.7])
def test_a_ramp_stays_a_ramp(mpp: float) -> None:
    width = 600
    got = ArraySlide(ramp(width, 500), mpp=0.5).read((50, 40), 100, mpp)
    centres = 50 + (np.arange(100) + 0.5) * mpp / 0.5 - 0.5
    expected = 255 * centres / (width - 1)
    assert np.abs(got[50, :, 0] - expected).max() <= 1.0


def test_neighbouring_reads_join_without_a_seam() -> None:
    slide = ArraySlide(noise(600, 600), mpp=0.5)
    whole = slide.read((100, 100), 120, 1.25)
    # 48 output pixels are exactly 120 level-0 pixels
    part = slide.read((100 + 120, 100), 48, 1.25)
    assert np.abs(whole[:48, 48:96].astype(int) - part).max() <= 1


def test_blocks_give_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    slide = ArraySlide(noise(500, 420), mpp=0.5)
    whole, thumbnail = slide.read((-30, 10), 150, 1.7), slide.thumbnail(133)
    monkeypatch.setattr(resampling, "BLOCK_PIXELS", 40 * 40)
    assert np.abs(slide.read((-30, 10), 150, 1.7).astype(int) - whole).max() <= 1
    assert np.abs(slide.thumbnail(133).astype(int) - thumbnail).max() <= 1


# --- pyramids -------------------------------------------------------------------------------------------------------


def stripes(width: int, height: int, period: int) -> UInt8:
    """Return vertical black and white stripes, `period` level-0 pixels from one black edge to the next."""
    black = (np.arange(width) // (period // 2)) % 2 == 0
    image = np.where(black[None, :, None], 0, 255)
    return np.broadcast_to(image, (height, width, 3)).astype(np.uint8)


def period_in(image: UInt8) -> float:
    """Return the period of vertical stripes in pixels, from the positions where brightness crosses the middle."""
    line = image[image.shape[0] // 2, :, 0].astype(float) - 127.5
    rising = np.nonzero((line[:-1] < 0) & (line[1:] >= 0))[0]
    exact = rising - line[rising] / (line[rising + 1] - line[rising])
    return float(np.diff(exact).mean())


def test_widths_are_right_within_half_a_percent(write_tiff: Callable[..., Path]) -> None:
    path = write_tiff(
        image=stripes(3333, 2017, 128), resolution=(4e4, 4e4), unit="CENTIMETER", levels=4, tile=256, compression=None
    )
    with as_pyramid(open_slide(path)) as slide:
        assert [level.downsample for level in slide.levels] == [1, 2, 4, 8]
        for mpp in (0.2, 0.25, 0.31, 0.5, 0.63, 0.8, 1.0, 1.26, 1.9, 2.0, 3.3):
            got = slide.read((128, 900), min(1500, int(3000 * 0.25 / mpp)), mpp)
            assert period_in(got[:40]) == pytest.approx(128 * 0.25 / mpp, rel=0.005), mpp


def test_a_coarser_level_gives_the_picture_of_the_fine_one(write_tiff: Callable[..., Path]) -> None:
    smooth = np.asarray(ramp(2049, 1803))
    path = write_tiff(image=smooth, resolution=(4e4, 4e4), unit="CENTIMETER", levels=3, tile=256)
    flat = ArraySlide(smooth, mpp=0.25)
    with as_pyramid(open_slide(path)) as slide:
        assert choose_level(slide.levels, 4.2) == 2
        assert np.abs(slide.read((301, 203), 200, 1.05).astype(int) - flat.read((301, 203), 200, 1.05)).max() <= 2
        assert np.abs(slide.thumbnail(256).astype(int) - flat.thumbnail(256)).max() <= 2


@pytest.mark.parametrize(
    ("base", "size", "ratio", "factor"),
    [
        ((3299, 3599), (1649, 1799), 2.00058, 2.0),
        ((3299, 3599), (1650, 1800), 1.9994, 2.0),
        ((2500, 2500), (78, 78), 32.05, 32.0),
        ((3299, 3599), (1600, 1745), 2.0622, 2.0622),
        ((1000, 1000), (300, 300), 3.3333, 3.3333),
        ((1000, 1000), (1000, 1000), 1.0, 1.0),
    ],
)
def test_downsamples_are_whole_where_an_odd_pixel_was_dropped(
    base: tuple[int, int], size: tuple[int, int], ratio: float, factor: float
) -> None:
    assert exact_downsample(Level(*base, 1.0), *size, ratio) == factor


def test_the_level_is_the_coarsest_with_enough_detail() -> None:
    levels = [Level(8000, 8000, 1.0), Level(4000, 4000, 2.0), Level(1999, 1999, 4.002), Level(250, 250, 32.1)]
    assert [choose_level(levels, scale) for scale in (0.5, 1.0, 1.9, 2.0, 3.9, 4.0, 40.0)] == [0, 0, 0, 1, 1, 2, 2]


class Recorder(PyramidSlide):
    """A slide of a given pyramid that notes which levels are read."""

    def __init__(self, levels: list[Level]) -> None:
        super().__init__("recorder", levels, Resolution(0.25, 0.25, "test"), format="test")
        self.read_levels: list[int] = []

    def _read_level(self, level, xy, size):
        self.read_levels.append(level)
        return ArraySlide(np.zeros((size[1], size[0], 3), np.uint8), 0.5)._read_level(0, (0, 0), size)


def test_no_more_pixels_are_decoded_than_needed() -> None:
    slide = Recorder([Level(10_000, 10_000, 1.0), Level(5_000, 5_000, 2.0), Level(2_500, 2_500, 4.0)])
    slide.read((0, 0), 224, 0.5)
    slide.read((0, 0), 224, 0.99)
    slide.read((0, 0), 224, 1.0)
    slide.thumbnail(1000)
    assert slide.read_levels == [1, 1, 2, 2]


# --- edges ----------------------------------------------------------------------------------------------------------


def test_outside_is_white_and_counted() -> None:
    slide = ArraySlide(np.zeros((100, 100, 3), np.uint8), mpp=0.5)
    got = slide.read((-50, 60), 100, 0.5)
    expected = np.full((100, 100, 3), 255, np.uint8)
    expected[:40, 50:] = 0
    assert np.array_equal(got, expected)
    assert slide.filled == 100 * 100 - 40 * 50
    assert np.array_equal(slide.read((500, 500), 10, 0.5), np.full((10, 10, 3), 255))
    assert slide.filled == 100 * 100 - 40 * 50 + 100


def test_a_slide_smaller_than_a_patch() -> None:
    slide = ArraySlide(np.full((152, 133, 3), 7, np.uint8), mpp=1.0)
    got = slide.read((0, 0), 500, 0.5)
    assert (got[:303, :265] == 7).all()
    assert (got[305:] == 255).all()
    assert (got[:, 267:] == 255).all()


def test_the_rim_of_a_slide_does_not_turn_white() -> None:
    slide = ArraySlide(np.full((300, 400, 3), 40, np.uint8), mpp=0.5)
    assert (slide.thumbnail(37) == 40).all()
    assert (slide.read((0, 0), 100, 1.5) == 40).all()
    assert (slide.read((400 - 300, 0), 100, 1.5) == 40).all()
    assert slide.filled == 0


def test_transparent_pixels_are_composited_on_white() -> None:
    image = np.zeros((60, 60, 4), np.uint8)
    image[..., 0] = 200
    image[:, :30, 3] = 255
    image[:, 30:40, 3] = 128
    slide = ArraySlide(image, mpp=0.5)
    got = slide.read((0, 0), 60, 0.5)
    assert got[5, 5].tolist() == [200, 0, 0]
    assert np.abs(got[5, 35].astype(int) - (227, 127, 127)).max() <= 1
    assert got[5, 50].tolist() == [255, 255, 255]
    assert slide.filled == 60 * 20


@pytest.mark.parametrize(("shape", "side", "expected"), [
    ((300, 400), 100, (75, 100)),
    ((400, 300), 100, (100, 75)),
    ((100, 100), 500, (100, 100)),
    ((2000, 3), 100, (100, 1)),
    ((1, 1), 1, (1, 1)),
])  # fmt: skip
def test_thumbnail_size(shape: tuple[int, int], side: int, expected: tuple[int, int]) -> None:
    slide = ArraySlide(np.full((*shape, 3), 9, np.uint8), mpp=0.5)
    assert slide.thumbnail(side).shape == (*expected, 3)


def test_thumbnail_shows_the_whole_slide() -> None:
    image = np.full((800, 1200, 3), 255, np.uint8)
    image[:400, :600], image[:400, 600:], image[400:, :600] = RED, GREEN, BLUE
    thumbnail = ArraySlide(image, mpp=0.5).thumbnail(120)
    corners = [thumbnail[0, 0], thumbnail[0, -1], thumbnail[-1, 0], thumbnail[-1, -1]]
    assert [tuple(corner.tolist()) for corner in corners] == [RED, GREEN, BLUE, WHITE]
    assert [tuple(thumbnail[y, x].tolist()) for y, x in ((38, 58), (38, 61), (41, 58))] == [RED, GREEN, BLUE]


def test_reads_are_the_same_every_time() -> None:
    slide = ArraySlide(noise(300, 300), mpp=0.5)
    assert np.array_equal(slide.read((7, 9), 64, 0.77), slide.read((7, 9), 64, 0.77))


# --- guards ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "mpp"), [(20_000, 0.5), (4_096, 50.0), (1_000, 1e6)])
def test_gigantic_reads_are_refused(size: int, mpp: float) -> None:
    with pytest.raises(SlideError, match="smaller size"):
        ArraySlide(noise(50, 50), mpp=0.5).read((0, 0), size, mpp)


@pytest.mark.parametrize(("size", "mpp"), [(0, 0.5), (-1, 0.5), (10, 0.0), (10, -1.0), (10, float("nan"))])
def test_nonsense_is_refused(size: int, mpp: float) -> None:
    with pytest.raises(ValueError, match="read"):
        ArraySlide(noise(50, 50), mpp=0.5).read((0, 0), size, mpp)


@pytest.mark.parametrize("side", [0, -3, 10**6])
def test_nonsense_thumbnails_are_refused(side: int) -> None:
    with pytest.raises(ValueError, match="thumbnail"):
        ArraySlide(noise(50, 50), mpp=0.5).thumbnail(side)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((4, 4), "uint8"), ((4, 4, 2), "uint8"), ((4, 4, 3), "float32"), ((0, 4, 3), "uint8")]
)
def test_arrays_of_another_kind_are_refused(shape: tuple[int, ...], dtype: str) -> None:
    with pytest.raises(ValueError, match="array"):
        ArraySlide(np.zeros(shape, dtype), mpp=0.5)


def test_a_closed_slide_says_so() -> None:
    slide = ArraySlide(noise(50, 50), mpp=0.5)
    slide.close()
    with pytest.raises(SlideError, match="closed"):
        slide.read((0, 0), 10, 0.5)
