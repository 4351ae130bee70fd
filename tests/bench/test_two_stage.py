"""The table of two-stage search: its measures, and that what is ranked is what the parts rank."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.encoder_scores import macro_f1
from bench.encoder_sets import FeatureSet, Task
from bench.two_stage import (
    ALONE,
    RERANKERS,
    Row,
    again,
    average_precision,
    cells,
    every_distance,
    mean_f1,
    mean_precision,
    resampled,
    rows_of,
)
from slideseek.types import Bag


@pytest.fixture(scope="module")
def task():
    """Twenty slides of ten patients; slides of a class share a direction."""
    rng = np.random.default_rng(0)
    targets = ["ab"[number % 2] for number in range(20)]
    bags = []
    for number, target in enumerate(targets):
        features = rng.normal(size=(4, 12)).astype(np.float32)
        features[:, 0 if target == "a" else 1] += 3
        bags.append(Bag(f"s{number:02}", features, np.zeros((4, 2), np.int32)))
    known = FeatureSet("toy", bags, targets, [f"p{number // 4 * 2 + number % 2}" for number in range(20)])
    return Task("toy", known, targets)


def test_distances_are_those_of_the_rerankers(task):
    found = every_distance(task, RERANKERS | ALONE)
    for name, reranker in (RERANKERS | ALONE).items():
        for query in (0, 7):
            assert found[name][query].tolist() == pytest.approx(
                reranker.distances(task.features.bags[query], task.features.bags)
            )


def test_only_the_first_are_ordered_again():
    assert again([4, 2, 0, 3], np.array([5.0, 0, 1, 0, 1]), 3) == [4, 2, 0, 3]
    assert again([4, 2, 0, 3], np.array([0.0, 0, 1, 0, 2]), 3) == [0, 2, 4, 3]


def test_average_precision(task):
    assert average_precision(task, 0, [2, 4, 1, 3]) == 100
    assert average_precision(task, 0, [1, 2, 3, 4]) == pytest.approx(50)


def test_measures_of_draws_are_those_of_one(task):
    rng = np.random.default_rng(1)
    values = rng.random(20)
    values[3] = np.nan
    answers = [str(one) for one in rng.choice(["a", "b", "c"], 20)]
    row, weights = Row("x", "x", [values], [answers], 1.0), resampled(task)[:40]
    kept = [i for i in range(20) if i != 3]
    for draw, precision, f1 in zip(weights, mean_precision(row, weights), mean_f1(task, row, weights)):
        assert precision == pytest.approx(np.average(values[kept], weights=draw[kept]))
        assert f1 == pytest.approx(
            macro_f1([task.targets[i] for i in kept], [answers[i] for i in kept], draw[kept]), abs=1e-9
        )


def test_a_whole_run(task, tmp_path):
    rows = rows_of(task, ["mean", "yottixel"], 1, tmp_path)
    assert len(rows) == 2 * 5 + 4 and all(row.milliseconds > 0 for row in rows)
    by_name = {row.name: row for row in rows}
    # Twenty of the candidates are all of them, so the first stage does not matter.
    for name in RERANKERS:
        whole = by_name[f"patch sets: {name}"].precision[0]
        np.testing.assert_array_equal(by_name[f"mean, then {name}, depth 20"].precision[0], whole)
    shown, apart = cells(task, rows)
    assert len(shown) == len(apart) == len(rows) and apart[0] == "" and "+-" in apart[1]
