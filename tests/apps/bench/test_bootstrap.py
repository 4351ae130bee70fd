"""Bootstrap over patients."""

import numpy as np
import pytest

from slideseek_apps.bench import class_sums
from slideseek_apps.bench.bootstrap import Resampled, draw_patients
from slideseek_apps.bench.class_sums import macro


def values_of(patients, slides, rng):
    """Sums of one 0/1 value a slide, where slides of a patient are all alike: (1, patients, 1 class, 2)."""
    right = (rng.random(patients) < 0.7) * float(slides)
    return np.stack([np.full(patients, float(slides)), right], axis=-1)[None, :, None, :]


def test_draws_are_seeded_and_hold_as_many_patients_as_there_are():
    first, again = (np.concatenate(list(draw_patients(30, 50, seed))) for seed in (1, 1))
    other = np.concatenate(list(draw_patients(30, 50, 2)))
    assert first.shape == (50, 30)
    assert (first.sum(1) == 30).all()
    assert (first == again).all()
    assert not (first == other).all()


def test_draws_come_in_chunks_that_fit_in_memory():
    sizes = [chunk.shape for chunk in draw_patients(3_000_000, 3, 0)]
    assert sizes == [(1, 3_000_000)] * 3


def test_the_interval_is_that_of_patients_not_of_slides():
    """Ten equal slides a patient do not make the interval shorter than one slide a patient."""
    one = Resampled(values_of(100, 1, np.random.default_rng(0))).estimate(class_sums.mean_of_queries)
    ten = Resampled(values_of(100, 10, np.random.default_rng(0))).estimate(class_sums.mean_of_queries)
    assert (one.value, one.low, one.high) == (ten.value, ten.low, ten.high)
    expected = 1.96 * np.sqrt(0.7 * 0.3 / 100)
    assert (one.high - one.low) / 2 == pytest.approx(expected, rel=0.15)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """Mean of a probability of 0.7 over 80 patients: 300 experiments, 95 % nominal."""
    rng = np.random.default_rng(5)
    held = 0
    for number in range(300):
        found = Resampled(values_of(80, 1, rng), 400, number).estimate(class_sums.mean_of_queries)
        held += bool(found.low <= 0.7 <= found.high)
    assert 0.91 <= held / 300 <= 0.98


def test_a_perfect_engine_has_an_interval_of_length_zero():
    counts = np.ones((1, 20, 2, 3))
    found = Resampled(counts).estimate(macro(class_sums.f1))
    assert [float(one) for one in (found.value, found.low, found.high)] == [1, 1, 1]


def test_a_class_that_samples_miss_is_left_out_of_them():
    """One patient holds all of class 1: a third of the samples lack it."""
    counts = np.zeros((1, 10, 2, 3))
    counts[0, 1:, 0] = (1, 1, 1)
    counts[0, 0, 1] = (1, 0, 0)
    resampled = Resampled(counts)
    by_class = resampled.estimate(class_sums.f1)
    assert by_class.value.tolist() == [1, 0]
    assert by_class.low.tolist() == [1, 0]
    assert by_class.high.tolist() == [1, 0]
    share = float((resampled.resampled(macro(class_sums.f1)) == 1).mean())
    assert share == pytest.approx(0.9**10, abs=0.04)


def test_seeds_are_averaged_within_a_sample():
    sums = np.concatenate([values_of(50, 1, np.random.default_rng(seed)) for seed in (1, 2)])
    both = Resampled(sums).resampled(class_sums.mean_of_queries)
    each = [Resampled(sums[i : i + 1]).resampled(class_sums.mean_of_queries) for i in (0, 1)]
    assert both == pytest.approx((each[0] + each[1]) / 2)
