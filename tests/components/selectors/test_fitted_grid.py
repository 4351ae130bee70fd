"""Cells fitted to the tissue: what they cover, where they lie, and that they follow the tissue."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from slideseek.types import Mask, UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.selectors import tissue as tissue_module
from slideseek_components.selectors.cell_sums import cell_means, each_mean, painted
from slideseek_components.selectors.fitted_grid import fitted_cells
from slideseek_components.selectors.grid import Grid
from slideseek_components.selectors.mosaic import Mosaic
from slideseek_components.selectors.tissue_grid import tissue_grid


def cover(mask: Mask, xy: np.ndarray, extent: float) -> float:
    """Return the share of the mask in cells; the mask is the slide itself."""
    held = np.zeros_like(mask)
    for x, y in xy:
        held[y : y + round(extent), x : x + round(extent)] = True
    return float((held & mask).sum() / mask.sum())


def fitted(mask: Mask, extent: float, min_tissue: float = 0.5, represent: float = 0.9, overlap: float = 0.0):
    return fitted_cells(mask, mask.shape[::-1], extent, overlap, min_tissue, represent)


def discs(*circles: tuple[int, int, int], shape: tuple[int, int] = (300, 400)) -> Mask:
    """Draw discs (x, y, radius)."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    mask = np.zeros(shape, dtype=np.bool_)
    for x, y, radius in circles:
        mask |= (columns - x) ** 2 + (rows - y) ** 2 < radius**2
    return mask


def test_a_piece_as_large_as_a_cell_is_one_cell_wherever_it_lies() -> None:
    for x, y in itertools.product((0, 13, 37), (5, 21)):
        mask = np.zeros((100, 120), dtype=np.bool_)
        mask[y : y + 40, x : x + 40] = True
        xy, share = fitted(mask, 40)
        assert xy.tolist() == [[x, y]] and share.tolist() == [1.0]


def test_each_piece_has_a_grid_of_its_own() -> None:
    mask = np.zeros((200, 400), dtype=np.bool_)
    mask[7:47, 3:83] = True
    mask[120:160, 211:291] = True
    assert fitted(mask, 40)[0].tolist() == [[3, 7], [43, 7], [211, 120], [251, 120]]


@pytest.mark.parametrize("represent", [0.5, 0.8, 0.95])
def test_the_rim_is_filled_until_enough_is_represented(represent: float) -> None:
    mask = discs((120, 140, 83), (300, 80, 41))
    xy, share = fitted(mask, 40, min_tissue=0.9, represent=represent)
    assert cover(mask, xy, 40) >= represent - 0.01
    assert (share >= 0.1).all()
    strict, _ = fitted(mask, 40, min_tissue=0.9, represent=0.0)
    assert len(strict) < len(xy) or represent == 0.5


def test_more_tissue_lies_in_cells_than_with_a_grid_from_the_corner() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        drawn = [(rng.integers(40, 360), rng.integers(40, 260), rng.integers(12, 40)) for _ in range(6)]
        mask = discs(*((int(x), int(y), int(radius)) for x, y, radius in drawn))
        xs, ys = np.meshgrid(np.arange(0, 380, 20), np.arange(0, 300, 20))
        corner = [(x, y) for x, y in zip(xs.ravel(), ys.ravel()) if mask[y : y + 20, x : x + 20].mean() >= 0.7]
        assert cover(mask, fitted(mask, 20)[0], 20) > max(0.9, cover(mask, np.array(corner), 20))


def test_a_small_piece_beside_a_large_one_is_represented() -> None:
    """They are fitted together, and the large one alone has nearly all of the tissue."""
    mask = np.zeros((300, 400), dtype=np.bool_)
    mask[20:280, 20:320] = True
    mask[100:280, 330:342] = True  # more than a cell's area, in no cell that is half full
    labelled = np.zeros_like(mask)
    for x, y in fitted(mask, 40, represent=0.5)[0]:
        labelled[y : y + 40, x : x + 40] = True
    assert labelled[100:280, 330:342].any()


def test_cells_lie_inside_and_none_twice() -> None:
    mask = np.ones((101, 133), dtype=np.bool_)
    xy, _ = fitted(mask, 20.5)
    assert (xy >= 0).all() and (xy + 20.5 <= np.array([133, 101]) + 1e-6).all()
    assert len(np.unique(xy, axis=0)) == len(xy)
    assert cover(mask, xy, 20) > 0.9


@pytest.mark.parametrize("shape, found", [((15, 30), 1), ((30, 30), 1), ((15, 15), 0), ((9, 200), 0)])
def test_a_patch_never_mostly_shows_padding(shape: tuple[int, int], found: int) -> None:
    xy, _ = fitted(np.ones(shape, dtype=np.bool_), 30)
    assert len(xy) == found


def test_no_tissue_no_cells() -> None:
    xy, share = fitted(np.zeros((50, 60), dtype=np.bool_), 10)
    assert xy.shape == (0, 2) and share.shape == (0,)


def test_overlapping_cells_repeat_that_share() -> None:
    mask = np.zeros((60, 200), dtype=np.bool_)
    mask[10:50, 20:140] = True
    assert fitted(mask, 40, overlap=0.5)[0].tolist() == [[x, 10] for x in range(20, 120, 20)]


def test_the_mean_of_single_cells_is_that_of_a_grid() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (50, 70), dtype=np.uint8)
    across = np.array([[0, 7.3], [7.3, 14.6], [60.1, 70]])
    down = np.array([[0, 12.5], [30.25, 50]])
    grid = cell_means(image, across, down)
    for r, c in itertools.product(range(2), range(3)):
        assert each_mean(image, across[[c]], down[[r]]) == pytest.approx(grid[r, c], abs=1e-8)


def test_painting_is_the_union_of_cells() -> None:
    across, down = np.array([[1.0, 4.0], [3.0, 6.0]]), np.array([[0.0, 2.0], [1.0, 3.0]])
    expected = np.zeros((4, 8), dtype=np.bool_)
    expected[0:2, 1:4] = expected[1:3, 3:6] = True
    assert np.array_equal(painted((4, 8), across, down), expected)


@pytest.fixture
def punched(monkeypatch: pytest.MonkeyPatch) -> ArraySlide:
    """A slide of 2 x 3 mm at 2 µm/px with a disc of 0.7 mm; every pixel that is not white is tissue."""

    def mask(rgb: UInt8, **options: object) -> Mask:
        return np.asarray((rgb < 250).any(axis=2))

    monkeypatch.setattr(tissue_module, "tissue_mask", mask)
    image = np.full((1000, 1500, 3), 255, np.uint8)
    image[discs((731, 402, 175), shape=(1000, 1500))] = (200, 120, 170)
    return ArraySlide(image, mpp=2.0, slide_id="punch")


def test_selectors_measure_what_they_leave_out(punched: ArraySlide) -> None:
    area = np.pi * 350**2
    corner, fitting = (Grid(size=100, mpp=2.0, anchor=a, min_tissue=0.5).select(punched) for a in ("slide", "tissue"))
    for patches in (corner, fitting):
        assert patches.tissue_um2 == pytest.approx(area, rel=0.05)
        assert patches.left_out_um2 is not None and 0 <= patches.left_out_um2 <= 1.05 * area
    assert fitting.represented is not None and corner.represented is not None
    assert fitting.represented >= 0.9 > corner.represented
    grid = tissue_grid(punched, 100, 2.0, anchor="tissue", min_tissue=0.5)
    assert (
        grid.xy.tolist()
        == fitting.xy.tolist()
        == Grid(size=100, mpp=2.0, anchor="tissue", min_tissue=0.5).offered(punched).xy.tolist()
    )


def test_a_bounded_mosaic_has_at_most_that_many_patches_of_every_colour(punched: ArraySlide) -> None:
    options: dict[str, Any] = {"size": 20, "mpp": 2.0, "anchor": "tissue", "min_tissue": 0.5, "percent": 50}
    free = Mosaic(**options).select(punched)
    assert len(free) > 40
    for most in (1, 5, 40):
        assert 0 < len(Mosaic(most=most, **options).select(punched)) <= most
    assert len(Mosaic(most=10**6, **options).select(punched)) == len(free)
    with pytest.raises(ValueError, match="most: must be at least 0"):
        Mosaic(most=-1)


@pytest.mark.parametrize("option", [{"anchor": "corner"}, {"represent": 1.2}])
def test_options_out_of_range(option: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        Grid(**option)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_every_piece_of_a_cells_area_is_represented(seed: int) -> None:
    """Pieces of any shape and number, near to each other or not, of the area of a cell or more."""
    rng = np.random.default_rng(seed)
    side = int(rng.integers(8, 40))
    smooth = ndimage.gaussian_filter(rng.normal(size=(300, 400)), rng.uniform(3, 12))
    mask = np.asarray(smooth > rng.uniform(0.5, 1.5) * smooth.std())
    xy, _ = fitted(mask, side, min_tissue=float(rng.choice([0.3, 0.5, 0.9])))
    held = np.zeros_like(mask)
    for x, y in xy:
        held[y : y + side, x : x + side] = True
    labels, count = ndimage.label(mask, structure=np.ones((3, 3)))
    areas = np.bincount(labels.ravel(), minlength=count + 1)
    seen = np.bincount(labels[held], minlength=count + 1)
    large = np.flatnonzero(areas >= side**2)
    assert (seen[large[large > 0]] > 0).all()
    assert cover(mask, xy, side) > 0.8 or areas[1:].max(initial=0) < side**2
