"""Paired tests: their level, their power, and the correction for many."""

import itertools

import numpy as np
import pytest

from slideseek_apps.bench import class_sums
from slideseek_apps.bench.class_sums import macro
from slideseek_apps.bench.paired_test import compare, holm

F1 = macro(class_sums.f1)


def engine(truth, patients, skill, rng):
    """Counts of an engine that is right with probability `skill` a slide, else votes for any class."""
    classes = int(truth.max()) + 1
    guess = rng.integers(classes, size=len(truth))
    said = np.where(rng.random(len(truth)) < skill, truth, guess)
    return class_sums.count(patients, truth, said, (int(patients.max()) + 1, classes))[None]


def archive(rng):
    """60 patients with one to three slides each, three classes of uneven size."""
    patients = np.repeat(np.arange(60), rng.integers(1, 4, size=60))
    truth = rng.choice(3, p=[0.5, 0.3, 0.2], size=60)[patients]
    return truth, patients


def test_equal_engines_differ_significantly_in_3_to_7_percent_of_comparisons():
    """500 comparisons of two equal engines, macro F1, level 5 %."""
    significant = 0
    for number in range(500):
        rng = np.random.default_rng([number, 11])
        truth, patients = archive(rng)
        first, second = (engine(truth, patients, 0.6, rng) for _ in range(2))
        significant += compare(first, second, F1, permutations=399, seed=number).p < 0.05
    assert 15 <= significant <= 35


def test_a_better_engine_is_found():
    found = 0
    for number in range(20):
        rng = np.random.default_rng([number, 12])
        truth, patients = archive(rng)
        result = compare(engine(truth, patients, 0.9, rng), engine(truth, patients, 0.5, rng), F1, 399, number)
        found += result.p < 0.05 and result.value > 0
    assert found >= 18


def test_few_patients_equal_the_exact_test():
    """Six patients have 64 arrangements: the drawn p-value is near their share of large differences."""
    rng = np.random.default_rng(3)
    truth, patients = rng.integers(2, size=24), np.repeat(np.arange(6), 4)
    first, second = engine(truth, patients, 0.8, rng), engine(truth, patients, 0.3, rng)
    observed = abs(float(F1(first.sum(1)[0]) - F1(second.sum(1)[0])))
    extreme = 0
    for swaps in itertools.product((False, True), repeat=6):
        where = np.array(swaps)[None, :, None, None]
        a, b = np.where(where, second, first), np.where(where, first, second)
        extreme += abs(float(F1(a.sum(1)[0]) - F1(b.sum(1)[0]))) >= observed - 1e-12
    result = compare(first, second, F1, permutations=9999)
    assert abs(result.value) == pytest.approx(observed, rel=0, abs=1e-12)
    assert result.p == pytest.approx(extreme / 64, abs=0.02)


def test_the_order_of_engines_changes_the_sign_alone():
    rng = np.random.default_rng(4)
    truth, patients = archive(rng)
    first, second = engine(truth, patients, 0.7, rng), engine(truth, patients, 0.5, rng)
    there, back = compare(first, second, F1), compare(second, first, F1)
    assert there.value == pytest.approx(-back.value, rel=0, abs=1e-12)
    assert there.p == back.p


def test_the_same_answers_never_differ():
    rng = np.random.default_rng(1)
    truth, patients = archive(rng)
    counts = engine(truth, patients, 0.6, rng)
    assert (compare(counts, counts, F1).value, compare(counts, counts, F1).p) == (0, 1)


def test_engines_must_have_answered_for_the_same():
    with pytest.raises(ValueError, match="second: the shape of first"):
        compare(np.ones((1, 4, 2, 3)), np.ones((1, 5, 2, 3)), F1)


def test_holm_by_hand():
    """Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1 is 0.04, 0.06, 0.06, 0.04; never below the one before."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []
