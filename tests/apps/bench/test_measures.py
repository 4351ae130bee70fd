"""Measures of one list, against hand-computed cases and scikit-learn, to 1e-12."""

from math import log2
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from slideseek.searching.votes import majority
from slideseek_apps.bench.measures import Divisor, average_precision_at, ndcg_at, precision_at, same_center_share_at

EXACT: dict[str, Any] = {"rel": 0, "abs": 1e-12}


@pytest.mark.parametrize(
    ("labels", "truth", "nearest", "correct", "strict"),
    [
        (["a"], "a", "a", "a", "a"),
        (["a", "b", "b"], "a", "b", "b", "b"),
        (["a", "b", "c"], "c", "a", "c", ""),
        (["a", "b", "c"], "d", "a", "a", ""),
        (["a", "b", "b", "a", "c"], "b", "a", "b", ""),
        (["a", "b", "b", "a", "c"], "c", "a", "a", ""),
        (["a", "a", "b", "c", "d"], "a", "a", "a", ""),
        (["", "b"], "b", "b", "b", "b"),
        (["a", "b"], "b", "a", "b", ""),
        ([], "a", "", "", ""),
        (["", ""], "a", "", "", ""),
    ],
)
def test_tie_rules(labels, truth, nearest, correct, strict):
    assert majority(labels, "nearest", truth) == nearest
    assert majority(labels, "correct", truth) == correct
    assert majority(labels, "strict", truth) == strict


RANKS = [True, False, True, True, False]


@pytest.mark.parametrize(
    ("k", "by_k", "by_found"), [(1, 1, 1), (3, 2 / 3, 2 / 3), (5, 3 / 5, 3 / 5), (10, 3 / 10, 3 / 5)]
)
def test_precision(k, by_k, by_found):
    assert precision_at(RANKS, k) == pytest.approx(by_k, **EXACT)
    assert precision_at(RANKS, k, "found") == pytest.approx(by_found, **EXACT)


def test_no_hits_score_nothing():
    for k in (1, 5):
        assert precision_at([], k) == precision_at([], k, "found") == 0
        assert average_precision_at([], k, "min(k, relevant)", 0) == ndcg_at([], k, "k") == 0


@pytest.mark.parametrize(
    ("k", "relevant", "hits", "by_k", "by_relevant"),
    [
        # precision at the relevant ranks 1, 3, 4 is 1, 2/3, 3/4
        (1, 9, 1, 1, 1),
        (3, 9, (1 + 2 / 3) / 2, (1 + 2 / 3) / 3, (1 + 2 / 3) / 3),
        (5, 3, (1 + 2 / 3 + 3 / 4) / 3, (1 + 2 / 3 + 3 / 4) / 5, (1 + 2 / 3 + 3 / 4) / 3),
        (10, 4, (1 + 2 / 3 + 3 / 4) / 3, (1 + 2 / 3 + 3 / 4) / 10, (1 + 2 / 3 + 3 / 4) / 4),
    ],
)
def test_average_precision_by_hand(k, relevant, hits, by_k, by_relevant):
    assert average_precision_at(RANKS, k, "hits") == pytest.approx(hits, **EXACT)
    assert average_precision_at(RANKS, k, "k") == pytest.approx(by_k, **EXACT)
    assert average_precision_at(RANKS, k, "min(k, relevant)", relevant) == pytest.approx(by_relevant, **EXACT)


@pytest.mark.parametrize(
    ("k", "relevant", "found", "ideals"),
    [
        (3, 9, 1 + 1 / log2(4), (1 + 1 / log2(3), 1 + 1 / log2(3) + 1 / 2, 1 + 1 / log2(3) + 1 / 2)),
        (
            8,
            4,
            1 + 1 / log2(4) + 1 / log2(5),
            (
                sum(1 / log2(i) for i in (2, 3, 4)),
                sum(1 / log2(i) for i in range(2, 10)),
                sum(1 / log2(i) for i in (2, 3, 4, 5)),
            ),
        ),
    ],
)
def test_ndcg_by_hand(k, relevant, found, ideals):
    divisors: tuple[Divisor, ...] = ("hits", "k", "min(k, relevant)")
    for name, ideal in zip(divisors, ideals):
        assert ndcg_at(RANKS, k, name, relevant) == pytest.approx(found / ideal, **EXACT)


@pytest.mark.parametrize("seed", range(20))
def test_whole_lists_equal_scikit_learn(seed):
    """With every candidate in the list, `relevant` is the number of relevant hits, and sklearn has the same idea."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 30))
    relevance = rng.random(size) < 0.4
    relevance[int(rng.integers(size))] = True
    scores = np.arange(size, 0, -1.0)
    listed, total = [bool(r) for r in relevance], int(relevance.sum())
    expected = average_precision_score(relevance, scores)
    for divisor in ("hits", "min(k, relevant)"):
        assert average_precision_at(listed, size, divisor, total) == pytest.approx(expected, **EXACT)
    for k in (1, 3, 5, size, size + 7):
        expected = ndcg_score(relevance[None].astype(float), scores[None], k=k)
        assert ndcg_at(listed, k, "min(k, relevant)", total) == pytest.approx(expected, **EXACT)


@pytest.mark.parametrize("relevant", [None, 1])
def test_relevant_must_be_known_and_enough(relevant):
    with pytest.raises(ValueError, match="relevant: at least 3"):
        average_precision_at(RANKS, 5, "min(k, relevant)", relevant)


def test_same_center_share_leaves_unknown_centres_out():
    assert same_center_share_at("a", ["a", "", "b", "a"], 3) == 1 / 2
    assert same_center_share_at("a", ["b", "a"], 10) == 1 / 2
    assert same_center_share_at("", ["a"], 1) is None
    assert same_center_share_at("a", ["", "b"], 1) is None
