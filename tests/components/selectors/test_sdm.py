"""Selection of distinct morphologies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from slideseek.types import UInt8
from slideseek_components.selectors.sdm import Sdm
from slideseek_components.selectors.tissue_grid import TissueGrid

MakeGrid = Callable[..., TissueGrid]
Stained = Callable[..., UInt8]


def test_one_patch_for_each_whole_distance_from_the_mean(make_grid: MakeGrid, stained: Stained) -> None:
    colours = stained(12, 15)
    distance = np.linalg.norm(colours.reshape(-1, 3) - colours.reshape(-1, 3).mean(axis=0), axis=1)
    chosen = Sdm().choose(make_grid(colours))
    bins = np.rint(distance).astype(int)
    assert sorted(bins[chosen].tolist()) == sorted(set(bins.tolist()))
    for cell in chosen:
        alike = np.sort(distance[bins == bins[cell]])
        assert np.isclose(distance[cell], alike[(len(alike) - 1) // 2])


def test_equal_distances_are_settled_by_place(make_grid: MakeGrid) -> None:
    grey = np.array([[100, 100, 100, 200, 200, 200]], dtype=np.uint8)[..., None].repeat(3, axis=2)
    # One distance, one bin: six alike patches, and the third by place is in the middle.
    assert Sdm().choose(make_grid(grey)).tolist() == [2]


def test_the_order_of_cells_plays_no_part(make_grid: MakeGrid, stained: Stained) -> None:
    grid = make_grid(stained(12, 15))
    expected = {tuple(xy) for xy in grid.xy[Sdm().choose(grid)].tolist()}
    for seed in range(5):
        p = np.random.default_rng(seed).permutation(len(grid))
        shuffled = replace(grid, xy=grid.xy[p], row=grid.row[p], col=grid.col[p], cover=grid.cover[p])
        assert {tuple(xy) for xy in shuffled.xy[Sdm().choose(shuffled)].tolist()} == expected
