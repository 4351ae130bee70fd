"""SPLICE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from slideseek.types import UInt8
from slideseek_components.selectors.splice import Splice
from slideseek_components.selectors.tissue_grid import TissueGrid

MakeGrid = Callable[..., TissueGrid]
Stained = Callable[..., UInt8]


def plain_splice(colours: UInt8, percentile: float) -> set[int]:
    """Walk outwards from the mean colour with plain lists, dropping what looks like a taken patch."""
    rgb = colours.reshape(-1, 3).astype(float)
    from_mean = np.linalg.norm(rgb - rgb.mean(axis=0), axis=1)
    left = sorted(range(len(rgb)), key=lambda i: (from_mean[i], i))
    taken = set()
    while left:
        current = left.pop(0)
        taken.add(current)
        away = {i: float(np.linalg.norm(rgb[i] - rgb[current])) for i in left}
        left = [i for i in left if away[i] > np.percentile(list(away.values()), percentile)]
    return taken


@pytest.mark.parametrize("percentile", [5, 25, 60])
def test_it_drops_what_looks_like_a_taken_patch(make_grid: MakeGrid, stained: Stained, percentile: float) -> None:
    colours = stained(12, 15)
    chosen = Splice(percentile=percentile).choose(make_grid(colours)).tolist()
    assert set(chosen) == plain_splice(colours, percentile)
    assert len(set(chosen)) == len(chosen)


def test_a_higher_percentile_takes_fewer(make_grid: MakeGrid, stained: Stained) -> None:
    grid = make_grid(stained(30, 30))
    counts = [len(Splice(percentile=p).choose(grid)) for p in (5, 25, 60, 95)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] >= 2


def test_one_colour_is_one_patch(make_grid: MakeGrid) -> None:
    assert Splice().choose(make_grid(np.full((4, 5, 3), 150, dtype=np.uint8))).tolist() == [0]


def test_the_order_of_cells_plays_no_part(make_grid: MakeGrid, stained: Stained) -> None:
    # Few colours, so that many cells tie and only their place can decide.
    grid = make_grid(stained(12, 15) // 16 * 16)
    expected = {tuple(xy) for xy in grid.xy[Splice().choose(grid)].tolist()}
    for seed in range(5):
        p = np.random.default_rng(seed).permutation(len(grid))
        shuffled = replace(grid, xy=grid.xy[p], row=grid.row[p], col=grid.col[p], cover=grid.cover[p])
        assert {tuple(xy) for xy in shuffled.xy[Splice().choose(shuffled)].tolist()} == expected


@pytest.mark.parametrize("percentile", [0, 100])
def test_a_percentile_that_drops_none_or_all_is_refused(percentile: float) -> None:
    with pytest.raises(ValueError, match=f"^percentile: must be above 0 and below 100, not {percentile}$"):
        Splice(percentile=percentile)
