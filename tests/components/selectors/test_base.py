"""What every selector promises: on tissue, inside, in order, no patch twice, at every resolution asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.interfaces import PatchSized, Selector, TissueFinder, implements
from slideseek.types import UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.selectors.base import TissueSelector
from slideseek_components.selectors.grid import Grid
from slideseek_components.selectors.mosaic import Mosaic
from slideseek_components.selectors.random import Random
from slideseek_components.selectors.sdm import Sdm
from slideseek_components.selectors.splice import Splice

MakeSlide = Callable[[UInt8], ArraySlide]
Stained = Callable[..., UInt8]

every_selector = pytest.mark.parametrize("selector", [Grid, Mosaic, Random, Sdm, Splice])


def island(stained: Stained) -> UInt8:
    """Colours of 20 x 30 cells: tissue inside, three cells of glass around it."""
    colours = np.full((20, 30, 3), 255, dtype=np.uint8)
    colours[3:-3, 3:-3] = stained(14, 24)
    return colours


@pytest.fixture
def marked_slide() -> ArraySlide:
    """A slide of 3 x 3 mm with a piece of tissue on the left and a blue pen mark on the right."""
    rng = np.random.default_rng(0)
    image = np.full((1500, 1500, 3), 244.0)
    texture = np.kron(rng.random((150, 75)), np.ones((8, 8)))[..., None]
    image[150:1350, 150:750] = np.array([225.0, 150, 190]) * (1 - texture) + np.array([110.0, 60, 140]) * texture
    image[300:1200, 1000:1200] = (20, 40, 200)
    return ArraySlide(image.astype(np.uint8), mpp=2.0, slide_id="marked")


@every_selector
def test_patches_lie_on_tissue_in_order_and_once(
    selector: type[TissueSelector], make_slide: MakeSlide, stained: Stained
) -> None:
    chosen = selector(size=8, mpp=2.0)
    assert isinstance(chosen, Selector)
    patches = chosen.select(make_slide(island(stained)))
    cells = [(y // 8, x // 8) for x, y in patches.xy.tolist()]
    assert patches.slide_id == "s"
    assert patches.size == 8
    assert set(patches.mpp.tolist()) == {2.0}
    assert cells == sorted(set(cells))
    assert all(3 <= row < 17 and 3 <= col < 27 for row, col in cells)
    assert np.all(patches.xy % 8 == 0)
    assert 1 < len(patches) <= 14 * 24


def test_the_grid_is_every_tissue_patch(make_slide: MakeSlide, stained: Stained) -> None:
    slide = make_slide(island(stained))
    assert len(Grid(size=8, mpp=2.0).select(slide)) == 14 * 24
    assert len(Grid(size=8, mpp=2.0, overlap=0.5, min_tissue=1).select(slide)) == 27 * 47


@every_selector
def test_same_slide_same_options_same_patches(
    selector: type[TissueSelector], make_slide: MakeSlide, stained: Stained
) -> None:
    slide = make_slide(island(stained))
    first, again = selector(size=8, mpp=2.0).select(slide), selector(size=8, mpp=2.0).select(slide)
    assert first.xy.tobytes() == again.xy.tobytes()


@every_selector
def test_it_shows_the_tissue_it_chooses_from(
    selector: type[TissueSelector], make_slide: MakeSlide, stained: Stained
) -> None:
    slide, chosen = make_slide(island(stained)), selector(size=8, mpp=2.0)
    assert implements(chosen, TissueFinder)
    thumbnail = slide.thumbnail(120)
    mask = chosen.find_tissue(slide, thumbnail)
    assert np.array_equal(mask, (thumbnail < 255).any(axis=2))


def test_tissue_follows_the_options_and_the_outline(marked_slide: ArraySlide, tmp_path: Path) -> None:
    thumbnail = marked_slide.thumbnail(300)
    shares = [Grid(exclude_pen=pen).find_tissue(marked_slide, thumbnail).mean() for pen in (True, False)]
    assert shares == pytest.approx([0.32, 0.40], abs=0.03)
    marked_slide.contours = tmp_path / "square.geojson"
    square = [[0, 0], [750, 0], [750, 750], [0, 750]]
    marked_slide.contours.write_text(json.dumps({"type": "Polygon", "coordinates": [square]}))
    assert Grid().find_tissue(marked_slide, thumbnail).mean() == 0.25


@every_selector
def test_a_patch_has_a_size_when_it_is_read_at_one_resolution(selector: type[TissueSelector]) -> None:
    sized = selector(size=300, mpp=0.4)
    assert implements(sized, PatchSized)
    assert sized.patch_um == pytest.approx(120)
    assert selector(size=300, mpp=0.4, also_mpp=(1.0,)).patch_um is None


@every_selector
def test_no_tissue_gives_no_patches(selector: type[TissueSelector], make_slide: MakeSlide) -> None:
    patches = selector(size=8, mpp=2.0, also_mpp=(4.0,)).select(make_slide(np.full((5, 6, 3), 255, dtype=np.uint8)))
    assert len(patches) == 0
    assert patches.size == 8


@every_selector
def test_a_slide_smaller_than_a_patch_is_one_patch(
    selector: type[TissueSelector], make_slide: MakeSlide, stained: Stained
) -> None:
    patches = selector(size=1000, mpp=2.0, also_mpp=(1.0, 4.0)).select(make_slide(stained(5, 6)))
    assert patches.xy.tolist() == [[0, 0]] * 3
    assert patches.mpp.tolist() == [2.0, 1.0, 4.0]


@every_selector
def test_further_resolutions_look_at_the_same_centres(
    selector: type[TissueSelector], make_slide: MakeSlide, stained: Stained
) -> None:
    patches = selector(size=8, mpp=2.0, also_mpp=(1.0, 6.0)).select(make_slide(island(stained)))
    # The margin of three cells is wide enough: no field of 24 pixels meets the border.
    at = {mpp: patches.xy[patches.mpp == mpp] for mpp in (2.0, 1.0, 6.0)}
    assert patches.mpp.tolist() == [2.0] * len(at[2.0]) + [1.0] * len(at[1.0]) + [6.0] * len(at[6.0])
    assert np.array_equal(at[2.0] + 4, at[1.0] + 2)
    assert np.array_equal(at[2.0] + 4, at[6.0] + 12)


def test_a_wider_field_is_pushed_inside_the_slide_and_not_repeated(make_slide: MakeSlide, stained: Stained) -> None:
    patches = Grid(size=8, mpp=2.0, also_mpp=(4.0,)).select(make_slide(stained(2, 3)))
    # The slide is 24 x 16 pixels, so a field of 16 has three places, each shared by the two rows of the grid.
    assert patches.xy[6:].tolist() == [[0, 0], [4, 0], [8, 0]]
    assert patches.mpp[6:].tolist() == [4.0] * 3


def test_a_finer_field_of_a_slide_smaller_than_a_patch_shows_its_middle(
    make_slide: MakeSlide, stained: Stained
) -> None:
    patches = Grid(size=100, mpp=2.0, also_mpp=(0.2,)).select(make_slide(stained(5, 6)))
    # The slide is 48 x 40 pixels of 2 µm, the finer field 10 of them wide.
    assert patches.xy.tolist() == [[0, 0], [19, 15]]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"size": 0}, "size: must be at least 1 pixel, not 0"),
        ({"mpp": 0.0}, "mpp: must be above 0 µm/px, not 0.0"),
        ({"mpp": float("nan")}, "mpp: must be above 0 µm/px, not nan"),
        ({"also_mpp": (1.0, -1.0)}, "also_mpp: must be above 0 µm/px, not -1.0"),
        ({"also_mpp": (0.5,)}, "also_mpp: must differ from mpp and from each other, not 0.5 again"),
        ({"also_mpp": (1.0, 1.0)}, "also_mpp: must differ from mpp and from each other, not 1.0 again"),
        ({"overlap": 1.0}, "overlap: must be at least 0 and below 1, not 1.0"),
        ({"min_tissue": 70}, "min_tissue: must be from 0 to 1, not 70"),
        ({"tissue": "otsu"}, "tissue: must be one of hsv-otsu, yottixel-hsd, fluorescence, not 'otsu'"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Grid(**options)
    assert str(caught.value) == message
