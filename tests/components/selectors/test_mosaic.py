"""Yottixel's mosaic, against a plain re-implementation of its steps."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from slideseek.types import UInt8
from slideseek_components.selectors.kmeans import STARTS, kmeans
from slideseek_components.selectors.mosaic import Colour, Mosaic, nearest_free
from slideseek_components.selectors.tissue_grid import TissueGrid

MakeGrid = Callable[..., TissueGrid]
Stained = Callable[..., UInt8]


def plain_mosaic(grid: TissueGrid, colours: UInt8, percent: int, clusters: int, seed: int) -> set[tuple[int, int]]:
    """Yottixel step by step, in loops: colour groups, then per group the patches nearest to spatial centres."""
    cells = [(int(r), int(c)) for r, c in zip(grid.row, grid.col)]
    rgb = [[float(v) for v in colours[r, c]] for r, c in cells]
    with threadpool_limits(1):
        k = min(clusters, len(cells))
        groups = KMeans(k, n_init=STARTS, random_state=seed, algorithm="lloyd").fit(rgb).labels_.tolist()
        mosaic = set()
        for group in sorted(set(groups)):
            members = [cell for cell, g in zip(cells, groups) if g == group]
            count = max(1, len(members) * percent // 100)
            model = KMeans(count, n_init=STARTS, random_state=seed, algorithm="lloyd").fit(members)
            for centre in model.cluster_centers_.tolist():
                free = [cell for cell in members if cell not in mosaic]
                mosaic.add(min(free, key=lambda cell: (round(math.dist(cell, centre) ** 2, 9), cell)))
    return mosaic


@pytest.mark.parametrize("percent, clusters, seed", [(15, 9, 0), (5, 9, 0), (100, 9, 1), (40, 3, 2), (15, 1, 0)])
def test_it_is_yottixels_mosaic(make_grid: MakeGrid, stained: Stained, percent: int, clusters: int, seed: int) -> None:
    colours = stained(14, 17, seed)
    tissue = np.random.default_rng(seed).random((14, 17)) < 0.8
    grid = make_grid(colours, tissue)
    chosen = Mosaic(percent=percent, clusters=clusters, seed=seed).choose(grid)
    expected = plain_mosaic(grid, colours, percent, clusters, seed)
    assert {(int(r), int(c)) for r, c in zip(grid.row[chosen], grid.col[chosen])} == expected
    assert len(chosen) == len(expected)


@pytest.mark.parametrize("percent, many, few", [(0.1, 1, 1), (5, 37, 1), (9.2, 69, 1), (15, 112, 1), (30, 225, 2)])
def test_each_colour_group_gives_its_share_and_at_least_one(
    make_grid: MakeGrid, percent: float, many: int, few: int
) -> None:
    # Two colours far apart: 750 and 7 cells. 9.2 % of 750 are 69, though in binary it comes out a little below.
    colours = np.full((1, 757, 3), (200, 120, 160), dtype=np.uint8)
    colours[:, 750:] = (90, 60, 120)
    chosen = Mosaic(percent=percent, clusters=2).choose(make_grid(colours))
    assert [int(np.sum(chosen < 750)), int(np.sum(chosen >= 750))] == [many, few]
    assert len(set(chosen.tolist())) == len(chosen)


def test_all_percent_is_all_patches(make_grid: MakeGrid, stained: Stained) -> None:
    assert sorted(Mosaic(percent=100).choose(make_grid(stained(9, 9))).tolist()) == list(range(81))


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 2)])
def test_fewer_patches_than_clusters(make_grid: MakeGrid, stained: Stained, shape: tuple[int, int]) -> None:
    chosen = Mosaic(clusters=9).choose(make_grid(stained(*shape)))
    assert sorted(chosen.tolist()) == list(range(shape[0] * shape[1]))


@pytest.mark.parametrize("colour", ["mean-rgb", "histogram"])
def test_fewer_colours_than_clusters_are_as_many_groups_without_a_warning(make_grid: MakeGrid, colour: Colour) -> None:
    colours = np.full((6, 10, 3), (200, 120, 160), dtype=np.uint8)
    colours[:, 5:] = (120, 80, 150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = Mosaic(percent=10, colour=colour).choose(make_grid(colours))
    assert np.sum(chosen % 10 < 5) == np.sum(chosen % 10 >= 5) == 3


def test_the_histogram_tells_apart_what_the_mean_colour_cannot(make_grid: MakeGrid) -> None:
    grid = make_grid(np.full((1, 8, 3), 128, dtype=np.uint8))
    checked = grid.thumbnail.copy()
    checked[::2, 32:] -= 50
    checked[1::2, 32:] += 50
    grid = make_grid(np.full((1, 8, 3), 128, dtype=np.uint8))
    grid.thumbnail[...] = checked
    assert len(Mosaic(percent=1).choose(grid)) == 1
    chosen = Mosaic(percent=1, colour="histogram").choose(grid)
    assert sorted((chosen >= 4).tolist()) == [False, True]


def test_a_taken_patch_goes_to_nobody_else_and_the_first_of_equals_is_taken() -> None:
    points = np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 5.0]])
    assert nearest_free(points, np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])).tolist() == [0, 1, 2]
    assert nearest_free(points, np.array([[0.0, 1.0 + 1e-13]])).tolist() == [0]


def test_the_number_of_threads_plays_no_part(make_grid: MakeGrid, stained: Stained) -> None:
    grid = make_grid(stained(40, 40))
    seen = set()
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            labels, centres = kmeans(grid.mean_rgb(), 9, seed=0)
            chosen = Mosaic().choose(grid)
        seen.add(hashlib.sha256(labels.tobytes() + centres.tobytes() + chosen.tobytes()).hexdigest())
    assert len(seen) == 1


def test_another_seed_may_choose_others_the_same_seed_never(make_grid: MakeGrid, stained: Stained) -> None:
    grid = make_grid(stained(20, 20))
    chosen = [frozenset(Mosaic(seed=seed).choose(grid).tolist()) for seed in (0, 0, 1, 2, 3)]
    assert chosen[0] == chosen[1]
    assert len(set(chosen)) > 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"percent": 120}, "percent: must be above 0 and at most 100, not 120"),
        ({"percent": 0}, "percent: must be above 0 and at most 100, not 0"),
        ({"clusters": 0}, "clusters: must be at least 1, not 0"),
        ({"colour": "lab"}, "colour: must be one of mean-rgb, histogram, not 'lab'"),
        ({"seed": -1}, "seed: must be from 0 to 4294967295, not -1"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Mosaic(**options)
    assert str(caught.value) == message
