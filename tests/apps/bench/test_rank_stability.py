"""The stability of an order of engines."""

import numpy as np
import pytest

from slideseek_apps.bench.class_sums import accuracy
from slideseek_apps.bench.rank_stability import draw_sites_and_patients, rank_stability


def answers(right):
    """Return counts (1 seed, patients, 1 class, 3) of engines that answer one slide per patient."""
    sums = np.ones((1, len(right), 1, 3))
    sums[0, :, 0, 2] = right
    return sums


def test_sites_are_drawn_and_then_their_patients():
    sites = np.repeat([0, 1, 2], [2, 3, 5])
    weights = np.concatenate(list(draw_sites_and_patients(sites, 4000, 0)))
    totals = np.stack([weights[:, sites == site].sum(1) for site in range(3)], axis=1)
    assert weights.shape == (4000, 10)
    assert (totals % [2, 3, 5] == 0).all() and (totals / [2, 3, 5]).sum(1).tolist() == [3.0] * 4000
    assert np.allclose(weights.mean(0), 1, atol=0.1), "each patient is drawn once on average"
    assert (totals[:, 0] == 0).mean() == pytest.approx((2 / 3) ** 3, abs=0.03), "a site may be absent"


def test_a_clear_winner_and_a_group():
    rng = np.random.default_rng(0)
    sites = np.arange(300) % 6
    skills = {"good": 0.9, "same": 0.89, "weak": 0.4}
    found = rank_stability([answers(rng.random(300) < skill) for skill in skills.values()], sites, accuracy, 500)
    good, same, weak = found
    assert good.first + same.first == pytest.approx(1) and weak.first == 0
    assert good.top and same.top and not weak.top, "the two cannot be told apart"
    assert (weak.low, weak.high) == (3, 3)


def test_equal_engines_share_the_first_place():
    right = np.random.default_rng(1).random(50) < 0.5
    found = rank_stability([answers(right), answers(right)], np.zeros(50, int), accuracy, 200)
    assert [one.first for one in found] == [0.5, 0.5] and all(one.top and one.high == 1 for one in found)


def test_a_lead_in_one_site_alone_is_not_stable():
    """An engine that is better in one of four sites leads often by patients, less so when sites are drawn too."""
    rng = np.random.default_rng(2)
    sites = np.repeat(np.arange(4), 50)
    base = rng.random(200) < 0.5
    better = np.where(sites == 0, rng.random(200) < 0.95, base)
    stacks = [answers(better), answers(base)]
    by_patients = rank_stability(stacks, np.zeros(200, int), accuracy, 1000)[0].first
    by_sites = rank_stability(stacks, sites, accuracy, 1000)[0].first
    assert by_patients > 0.99 > by_sites
