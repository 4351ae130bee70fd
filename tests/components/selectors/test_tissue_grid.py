"""The tissue grid: exact cells, exact tissue shares, and slides smaller than a cell."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pytest

from slideseek.types import Mask, UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.selectors import tissue as tissue_module
from slideseek_components.selectors.image_masks import ImageMasks
from slideseek_components.selectors.tissue_grid import tissue_grid

WHITE, PINK = (255, 255, 255), (210, 120, 170)


@pytest.fixture
def not_white(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every pixel that is not white for tissue, so that tissue shares can be computed by hand."""

    def mask(rgb: UInt8, **options: object) -> Mask:
        return np.asarray((rgb < 255).any(axis=2))

    monkeypatch.setattr(tissue_module, "tissue_mask", mask)


def blank(width: int, height: int, colour: tuple[int, int, int] = WHITE) -> UInt8:
    return np.broadcast_to(np.array(colour, dtype=np.uint8), (height, width, 3)).copy()


def speckled(width: int, height: int, seed: int = 0) -> UInt8:
    """Random colours in one half of the pixels, white in the other."""
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
    image[rng.random((height, width)) < 0.5] = 255
    return image


@pytest.mark.usefixtures("not_white")
def test_cells_keep_their_physical_size_without_drift() -> None:
    slide = ArraySlide(blank(1000, 700, PINK), mpp=0.2521, slide_id="s")
    cells = tissue_grid(slide, size=10, mpp=0.5)
    extent = 10 * 0.5 / 0.2521
    assert cells.extent == pytest.approx(extent)
    assert cells.col.max() + 1 == math.floor(1000 / extent)
    assert cells.row.max() + 1 == math.floor(700 / extent)
    assert np.all(np.abs(cells.xy[:, 0] - cells.col * extent) < 1)
    assert np.all(np.abs(cells.xy[:, 1] - cells.row * extent) < 1)
    assert np.all(cells.xy + extent <= (1000 + 1e-6, 700 + 1e-6))


@pytest.mark.usefixtures("not_white")
def test_a_whole_number_of_cells_fills_the_slide_to_its_border() -> None:
    # 0.1 has no exact binary form: 300 * 0.1 / 0.3 must still be 100 pixels, three times in 300.
    cells = tissue_grid(ArraySlide(blank(300, 200, PINK), mpp=0.3, slide_id="s"), size=300, mpp=0.1)
    assert cells.xy.tolist() == [[0, 0], [100, 0], [200, 0], [0, 100], [100, 100], [200, 100]]


@pytest.mark.usefixtures("not_white")
def test_cells_are_ordered_by_row_then_column_and_typed() -> None:
    cells = tissue_grid(ArraySlide(speckled(200, 150), mpp=4, slide_id="s"), size=10, mpp=4, min_tissue=0.5)
    assert cells.xy.dtype == cells.row.dtype == cells.col.dtype == np.int32
    order = np.lexsort((cells.col, cells.row))
    assert order.tolist() == list(range(len(cells)))
    assert 0 < len(cells) < 300
    assert np.all(cells.cover >= 0.5)


@pytest.mark.usefixtures("not_white")
def test_tissue_share_and_mean_colour_are_exact_where_cells_cut_pixels() -> None:
    # The thumbnail is the slide itself here; cells are 12.5 pixels wide, so doubled pixels give the truth.
    image = speckled(200, 125)
    cells = tissue_grid(ArraySlide(image, mpp=4, slide_id="s"), size=25, mpp=2, min_tissue=0)
    doubled = image.repeat(2, axis=0).repeat(2, axis=1).astype(np.float64)
    assert len(cells) == 16 * 10
    for (x, y), cover, colour in zip(cells.xy * 2, cells.cover, cells.mean_rgb()):
        cell = doubled[y : y + 25, x : x + 25]
        assert cover == pytest.approx((cell < 255).any(axis=2).mean(), abs=1e-9)
        assert colour == pytest.approx(cell.mean(axis=(0, 1)), abs=1e-6)


@pytest.mark.usefixtures("not_white")
def test_min_tissue_is_a_lower_bound_that_a_full_cell_always_meets() -> None:
    image = blank(200, 100)
    image[:, :101] = PINK
    slide = ArraySlide(image, mpp=4, slide_id="s")
    assert tissue_grid(slide, 33, 4, min_tissue=1.0).col.tolist() == [0, 1, 2] * 3
    assert tissue_grid(slide, 33, 4, min_tissue=0.06).col.tolist() == [0, 1, 2, 3] * 3


@pytest.mark.usefixtures("not_white")
def test_no_tissue_gives_no_cells_even_when_none_is_asked_for() -> None:
    cells = tissue_grid(ArraySlide(blank(200, 100), mpp=4, slide_id="s"), 20, 4, min_tissue=0)
    assert len(cells) == 0
    assert cells.xy.shape == (0, 2)
    assert cells.mean_rgb().shape == (0, 3)


@pytest.mark.usefixtures("not_white")
@pytest.mark.parametrize("colour, expected", [(PINK, [[0, 0]]), (WHITE, [])])
def test_a_slide_smaller_than_a_cell_is_one_cell_if_it_shows_tissue(
    colour: tuple[int, int, int], expected: list[list[int]]
) -> None:
    image = blank(133, 152)
    image[:40, :30] = colour
    cells = tissue_grid(ArraySlide(image, mpp=0.5, slide_id="s"), size=1000, mpp=0.5)
    assert cells.xy.tolist() == expected
    if expected:
        assert cells.cover == pytest.approx([40 * 30 / (133 * 152)])
        assert cells.extent == 1000


@pytest.mark.usefixtures("not_white")
def test_a_strip_narrower_than_a_cell_has_one_column() -> None:
    cells = tissue_grid(ArraySlide(blank(30, 230, PINK), mpp=1, slide_id="s"), size=50, mpp=1)
    assert cells.xy.tolist() == [[0, 0], [0, 50], [0, 100], [0, 150]]
    assert cells.cover.tolist() == [1.0] * 4


@pytest.mark.usefixtures("not_white")
def test_overlap_repeats_that_share_of_a_cell() -> None:
    cells = tissue_grid(ArraySlide(blank(100, 40, PINK), mpp=1, slide_id="s"), size=40, mpp=1, overlap=0.25)
    assert cells.xy.tolist() == [[0, 0], [30, 0], [60, 0]]


@pytest.mark.usefixtures("not_white")
def test_an_outlined_slide_has_its_tissue_there_and_nowhere_else(tmp_path: Path) -> None:
    slide = ArraySlide(blank(100, 100, PINK), mpp=1, slide_id="s")
    triangle = {"type": "Polygon", "coordinates": [[[0, 0], [100, 0], [0, 100]]]}
    slide.contours = tmp_path / "triangle.geojson"
    slide.contours.write_text(json.dumps(triangle))
    assert {tuple(xy) for xy in tissue_grid(slide, 10, 1, min_tissue=1.0).xy.tolist()} == {
        (x, y) for x in range(0, 100, 10) for y in range(0, 100, 10) if x + y + 20 <= 100
    }


@dataclass
class GiantSlide:
    """A white slide of any dimensions that remembers the thumbnail side asked of it."""

    dimensions: tuple[int, int]
    mpp: float
    id: str = "giant"
    asked: int = 0

    def thumbnail(self, side: int) -> UInt8:
        self.asked = side
        return blank(16, 8)

    def read(self, xy: tuple[int, int], size: int, mpp: float) -> UInt8:
        raise NotImplementedError("a grid needs the thumbnail only")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


@pytest.mark.usefixtures("not_white")
@pytest.mark.parametrize(
    "dimensions, mpp, size, side",
    [
        ((40_000, 30_000), 0.5, 1000, 2500),  # 8 µm/px
        ((200_000, 90_000), 0.25, 1000, 4096),  # bounded
        ((160_000, 90_000), 0.25, 100, 6400),  # unless cells of 50 µm would be less than 8 pixels wide
        ((200_000, 90_000), 0.25, 64, 8192),  # and bounded again
        ((2_000, 1_500), 0.5, 1000, 256),  # a small slide is looked at more closely
        ((133, 152), 0.5, 1000, 152),  # and never enlarged
    ],
)
def test_the_thumbnail_is_coarse_but_shows_every_cell(
    dimensions: tuple[int, int], mpp: float, size: int, side: int
) -> None:
    slide = GiantSlide(dimensions, mpp)
    tissue_grid(slide, size, 0.5)
    assert slide.asked == side


def test_the_real_tissue_mask_finds_a_stained_piece_on_glass() -> None:
    rng = np.random.default_rng(0)
    image = np.clip(rng.normal(243, 2, (1200, 1600, 3)), 0, 255).astype(np.uint8)
    image[300:900, 400:1200] = np.clip(rng.normal(PINK, 12, (600, 800, 3)), 0, 255).astype(np.uint8)
    cells = tissue_grid(ArraySlide(image, mpp=4, slide_id="s"), size=100, mpp=4)
    assert {tuple(xy) for xy in cells.xy.tolist()} == {
        (x, y) for x in range(400, 1200, 100) for y in range(300, 900, 100)
    }


def test_a_crop_smaller_than_a_speck_of_dust_is_still_tissue() -> None:
    image = np.clip(np.random.default_rng(0).normal(PINK, 12, (152, 133, 3)), 0, 255).astype(np.uint8)
    assert tissue_grid(ArraySlide(image, mpp=0.5, slide_id="s"), size=1000, mpp=0.5).xy.tolist() == [[0, 0]]


def test_tissue_options_and_resolution_reach_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []

    def mask(
        rgb: UInt8,
        method: str,
        exclude_pen: bool,
        *,
        exclude_debris: bool,
        mpp: float | None,
        max_hole: float,
        masks: ImageMasks,
    ) -> Mask:
        assert masks.rgb is rgb
        calls.append((method, exclude_pen, exclude_debris, mpp))
        return np.ones(rgb.shape[:2], dtype=np.bool_)

    monkeypatch.setattr(tissue_module, "tissue_mask", mask)
    slide = ArraySlide(blank(1024, 512, PINK), mpp=2, slide_id="s")
    tissue_grid(slide, 100, 2, tissue="fluorescence", exclude_pen=False, exclude_debris=False)
    # 2 mm across are shown on 256 pixels.
    assert calls == [("fluorescence", False, False, 8.0)]


def test_a_cell_inside_a_lumen_is_not_tissue() -> None:
    rng = np.random.default_rng(0)
    image = rng.normal((200, 130, 180), 12, (2000, 2000, 3)).clip(0, 255).astype(np.uint8)
    image[:400] = 245
    image[1100:1360, 1100:1360] = 245
    slide = ArraySlide(image, mpp=0.5, slide_id="lumen")
    small = tissue_grid(slide, 100, 0.5)
    inside = (small.xy >= 1100).all(axis=1) & (small.xy <= 1260).all(axis=1)
    assert len(small) > 200 and not inside.any(), "130 µm of glass hold whole cells of 50 µm"
    large = tissue_grid(slide, 500, 0.5)
    assert ((large.xy <= 1100).all(axis=1) & (large.xy + 500 >= 1360).all(axis=1)).any(), "and are a detail of 250 µm"
