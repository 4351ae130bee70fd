"""What every selector promises: on tissue, inside, in order, no patch twice, at every resolution asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slideseek.interfaces import Selector
from slideseek.slides.image_reader import ArraySlide
from slideseek.types import UInt8
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
def test_options_out_of_range(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Grid(**options)
    assert str(caught.value) == message
