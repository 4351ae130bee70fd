"""Statistics of sums by patient and class, against scikit-learn to 1e-12."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, precision_recall_fscore_support

from slideseek_apps.bench import class_sums
from slideseek_apps.bench.class_sums import macro, weighted
from slideseek_apps.bench.measure_sums import ListSums
from slideseek_apps.bench.ranked_lists import QueryHits, RankedHit

EXACT: dict[str, Any] = {"rel": 0, "abs": 1e-12}


def random_lists(seed, depth=7, labels="abcd"):
    """Ranked lists of uneven length over uneven classes; `z` is found but never asked for."""
    rng = np.random.default_rng(seed)
    queries = []
    for number in range(60):
        found = tuple(
            RankedHit(f"h{number}-{rank}", str(rng.choice([*labels, "", "z"]))) for rank in range(rng.integers(depth))
        )
        label = str(rng.choice(list(labels), p=[0.5, 0.3, 0.15, 0.05]))
        queries.append(QueryHits(f"q{number}", label, found, f"p{rng.integers(25)}"))
    return ListSums(queries)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tie", ["nearest", "correct", "strict"])
@pytest.mark.parametrize("k", [1, 3, 5, 50])
def test_votes_equal_scikit_learn(seed, tie, k):
    lists = random_lists(seed)
    truth = [query.label for query in lists.queries]
    said = [vote or "nothing" for vote in lists.votes(k, tie)]
    names = [label for _, label in lists.classes]
    counts = lists.vote_counts(k, tie).sum(0)
    expected = precision_recall_fscore_support(truth, said, labels=names, zero_division=0)
    for statistic, wanted in zip((class_sums.precision, class_sums.recall, class_sums.f1), expected):
        assert statistic(counts) == pytest.approx(wanted, **EXACT)
    assert lists.slides.tolist() == expected[3].tolist()
    for average, over in (("macro", macro), ("weighted", weighted)):
        expected = precision_recall_fscore_support(truth, said, labels=names, average=average, zero_division=0)
        for statistic, wanted in zip((class_sums.precision, class_sums.recall, class_sums.f1), expected):
            assert over(statistic)(counts) == pytest.approx(wanted, **EXACT)
    assert class_sums.accuracy(counts) == pytest.approx(accuracy_score(truth, said), **EXACT)
    sums = lists.right_votes(k, tie).sum(0)
    assert class_sums.mean_of_queries(sums) == pytest.approx(accuracy_score(truth, said), **EXACT)
    known = [vote if vote in names else truth[0] + "!" for vote in said]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # votes for classes that have no slide
        balanced = balanced_accuracy_score(truth, known)
    assert macro(class_sums.mean_by_class)(sums) == pytest.approx(balanced, **EXACT)


def test_weights_of_patients_are_slides_repeated():
    lists = random_lists(3)
    weights = np.random.default_rng(1).integers(3, size=len(lists.patients))
    repeated = [
        QueryHits(f"{query.query_id}-{copy}", query.label, query.hits, query.patient)
        for query in lists.queries
        for copy in range(weights[lists.patients.index(query.patient)])
    ]
    counts = np.tensordot(weights.astype(float), lists.vote_counts(3, "nearest"), 1)
    expected = ListSums(repeated, classes=lists.classes).vote_counts(3, "nearest").sum(0)
    assert counts == pytest.approx(expected, **EXACT)


def test_an_absent_class_is_nan_and_has_no_part_in_means():
    counts = np.array([[2.0, 2.0, 1.0], [0.0, 1.0, 0.0]])
    assert class_sums.f1(counts)[0] == 0.5
    assert np.isnan(class_sums.f1(counts)[1])
    assert macro(class_sums.f1)(counts) == weighted(class_sums.f1)(counts) == 0.5


def test_a_label_of_two_sites_is_two_classes():
    hit = RankedHit("h", "normal")
    queries = [
        QueryHits("1", "normal", (hit,), "p1", site="colon"),
        QueryHits("2", "tumour", (hit,), "p2", site="colon"),
        QueryHits("3", "normal", (hit,), "p3", site="lung"),
    ]
    lists = ListSums(queries, by_site=True)
    assert lists.classes == (("colon", "normal"), ("colon", "tumour"), ("lung", "normal"))
    assert class_sums.f1(lists.vote_counts(1, "nearest").sum(0)).tolist() == [2 / 3, 0, 1]
    assert class_sums.f1(ListSums(queries).vote_counts(1, "nearest").sum(0)).tolist() == [4 / 5, 0]
