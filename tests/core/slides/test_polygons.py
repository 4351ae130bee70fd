"""Polygons: pixels and points follow one even-odd rule, whatever is drawn, and memory stays bounded."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from slideseek.slides import polygons
from slideseek.slides.polygons import fill, fill_polygons, points_in_polygons
from slideseek.types import Float64


def rectangle(left: float, top: float, right: float, bottom: float) -> Float64:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]])


def centres(side: int) -> Float64:
    y, x = np.mgrid[:side, :side] + 0.5
    return np.stack([x.ravel(), y.ravel()], axis=1)


@pytest.mark.parametrize("grid", [0.0, 0.5, 1.0], ids=["anywhere", "half-pixels", "whole-pixels"])
def test_points_agree_with_the_filled_mask(grid: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        rings = [rng.uniform(-4, 44, (rng.integers(3, 12), 2)) for _ in range(rng.integers(1, 4))]
        rings = [np.round(ring / grid) * grid for ring in rings] if grid else rings
        held = points_in_polygons([rings], centres(40))
        assert np.array_equal(held.reshape(40, 40), fill(rings, (40, 40)))


def test_filling_in_portions_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = np.random.default_rng(0).uniform(0, 50, (200, 2))
    whole, held = fill([ring], (50, 50)), points_in_polygons([[ring]], centres(50))
    monkeypatch.setattr(polygons, "_CROSSINGS", 37)
    assert np.array_equal(fill([ring], (50, 50)), whole)
    assert np.array_equal(points_in_polygons([[ring]], centres(50)), held)


def test_polygons_that_share_an_edge_share_no_pixel_and_miss_none() -> None:
    left, right = [rectangle(0, 0, 10.5, 20)], [rectangle(10.5, 0, 20, 20)]
    above, below = [rectangle(0, 0, 20, 7.5)], [rectangle(0, 7.5, 20, 20)]
    for one, other in ((left, right), (above, below)):
        assert (fill(one, (20, 20)) ^ fill(other, (20, 20))).all()
        assert (points_in_polygons([one], centres(20)) ^ points_in_polygons([other], centres(20))).all()


def test_overlapping_holes_and_crossing_outlines_follow_the_even_odd_rule() -> None:
    holes = [rectangle(0, 0, 20, 20), rectangle(4, 4, 12, 12), rectangle(8, 8, 16, 16)]
    mask = fill(holes, (20, 20))
    assert mask[0, 0] and not mask[5, 5] and mask[10, 10] and not mask[14, 14]
    bow_tie = [np.array([[0.0, 0], [20, 20], [20, 0], [0, 20]])]
    assert points_in_polygons([bow_tie], np.array([[3.0, 10], [17, 10], [10, 3], [10, 17]])).tolist() == [1, 1, 0, 0]


def test_many_crossings_at_one_pixel_keep_their_parity() -> None:
    """A pixel counts its crossings in one byte: 300 rings around it must not overflow into another answer."""
    rings = [rectangle(5, 5, 15, 15)] * 301
    assert fill(rings, (20, 20)).sum() == 100
    assert not fill(rings[1:], (20, 20)).any()


def test_a_point_in_any_polygon_is_held() -> None:
    squares = [[rectangle(x, 0, x + 10, 10)] for x in (0, 5, 40)]
    assert points_in_polygons(squares, np.array([[2.0, 5], [7, 5], [30, 5], [45, 5]])).tolist() == [1, 1, 0, 1]
    assert points_in_polygons(squares, np.empty((0, 2))).shape == (0,)
    assert fill_polygons(squares, (1.0, 1.0), (10, 50)).sum() == 250


def test_memory_does_not_grow_with_the_crossings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zigzag of 4,000 corners over 2,000 rows has 8 million crossings, 64 MB of each number kept about them."""
    zigzag = np.random.default_rng(0).uniform(0, 2000, (4000, 2))
    zigzag[::2, 1], zigzag[1::2, 1] = 0, 2000
    monkeypatch.setattr(polygons, "_CROSSINGS", 2**16)
    tracemalloc.start()
    fill([zigzag], (2000, 200))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6
