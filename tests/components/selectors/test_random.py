"""The random sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slideseek.types import UInt8
from slideseek_components.selectors.random import Random
from slideseek_components.selectors.tissue_grid import TissueGrid

MakeGrid = Callable[..., TissueGrid]
Stained = Callable[..., UInt8]


def test_it_draws_that_many_different_patches(make_grid: MakeGrid, stained: Stained) -> None:
    grid = make_grid(stained(10, 20))
    chosen = Random(count=50).choose(grid)
    assert len(set(chosen.tolist())) == 50
    assert chosen.min() >= 0
    assert chosen.max() < 200


def test_all_where_there_are_fewer(make_grid: MakeGrid, stained: Stained) -> None:
    assert sorted(Random(count=50).choose(make_grid(stained(3, 4))).tolist()) == list(range(12))


def test_the_seed_alone_decides(make_grid: MakeGrid, stained: Stained) -> None:
    grid, other = make_grid(stained(10, 20)), make_grid(stained(10, 20, seed=5))
    selector = Random(count=20, seed=3)
    first = selector.choose(grid).tolist()
    assert selector.choose(other).tolist() == first
    assert Random(count=20, seed=4).choose(grid).tolist() != first


def test_every_patch_is_equally_likely(make_grid: MakeGrid, stained: Stained) -> None:
    grid = make_grid(stained(2, 5))
    drawn = np.concatenate([Random(count=3, seed=seed).choose(grid) for seed in range(1000)])
    counts = np.bincount(drawn, minlength=10)
    # Each of ten is drawn with chance 0.3: 300 of 1000 with a standard deviation of 14.5.
    assert np.all(np.abs(counts - 300) < 5 * 14.5)


def test_a_count_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^count: must be at least 1, not 0$"):
        Random(count=0)
