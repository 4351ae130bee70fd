"""Selectors on real H&E slides: patches on tissue, spread over place and colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slideseek.slides.reader import open_slide
from slideseek_components.selectors.base import TissueSelector
from slideseek_components.selectors.grid import Grid
from slideseek_components.selectors.mosaic import Mosaic
from slideseek_components.selectors.random import Random
from slideseek_components.selectors.sdm import Sdm
from slideseek_components.selectors.splice import Splice

pytestmark = [pytest.mark.shared, pytest.mark.slow]

BIOPSIES = ["crohn-colonoscopic-biopsy__HE2", "ischemic-colitis__HE", "signet-ring-cell-carcinoma__HE"]
"""Slides of which about half is glass."""


@pytest.mark.parametrize("selector", [Grid, Mosaic, Random, Sdm, Splice])
@pytest.mark.parametrize("name", BIOPSIES)
def test_patches_show_tissue_and_lie_inside(shared_data: Path, name: str, selector: type[TissueSelector]) -> None:
    with open_slide(shared_data / "slides-atlas" / f"{name}.tif") as slide:
        patches = selector(size=448, mpp=1.0).select(slide)
        extent = 448 * 1.0 / slide.mpp
        assert len(patches) > 3
        assert np.all(patches.xy >= 0)
        assert np.all(patches.xy + extent <= np.array(slide.dimensions) + 1e-6)
        for xy in patches.xy[:: max(1, len(patches) // 5)].tolist():
            image = slide.read((xy[0], xy[1]), patches.size, 1.0).astype(int)
            # Stain absorbs green; glass leaves all three colours alike.
            assert np.mean(np.ptp(image, axis=2) > 15) > 0.3


@pytest.mark.parametrize("name", BIOPSIES)
def test_the_mosaic_is_spread_over_places_and_colours(shared_data: Path, name: str) -> None:
    with open_slide(shared_data / "slides-atlas" / f"{name}.tif") as slide:
        selector = Mosaic(size=224)
        grid = selector.grid(slide)
    chosen = np.sort(selector.choose(grid))
    assert 0.1 < len(chosen) / len(grid) <= 0.15 + 9 / len(grid)
    places = np.stack([grid.row, grid.col], axis=1)
    to_nearest = np.min(np.abs(places[:, None] - places[None, chosen]).max(axis=2), axis=1)
    assert np.quantile(to_nearest, 0.95) <= 4
    colours = grid.mean_rgb()
    assert np.all(np.ptp(colours[chosen], axis=0) > 0.7 * np.ptp(colours, axis=0))
