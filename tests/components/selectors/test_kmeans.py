"""k-means that gives the same bytes on any number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.cluster._k_means_common import _relocate_empty_clusters_dense
from threadpoolctl import threadpool_info, threadpool_limits

from slideseek_components.selectors import kmeans as kmeans_module
from slideseek_components.selectors.kmeans import STARTS, kmeans
from slideseek_components.selectors.small_kmeans import MOST_PAIRS, _fill_empty, small_kmeans


def points(n: int = 3000) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


@pytest.mark.parametrize("threads", [2, 4])
def test_same_bytes_on_any_number_of_threads(threads: int) -> None:
    with threadpool_limits(1):
        labels, centres = kmeans(points(), 9, seed=0)
    with threadpool_limits(threads):
        again, same = kmeans(points(), 9, seed=0)
    assert labels.tobytes() == again.tobytes()
    assert centres.tobytes() == same.tobytes()


def test_clusterings_at_once_agree_and_leave_the_thread_limits_as_they_were() -> None:
    def blas_threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2):
        before = blas_threads()
        with ThreadPoolExecutor(4) as workers:
            results = list(workers.map(lambda seed: kmeans(points(500), 5, seed), [0] * 12))
        assert blas_threads() == before
    assert len({centres.tobytes() for _, centres in results}) == 1


def test_it_separates_what_is_separate() -> None:
    blobs = np.repeat([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]], 20, axis=0) + points(60)[:, :2]
    labels, centres = kmeans(blobs, 3, seed=0)
    assert all(len(set(labels[i : i + 20].tolist())) == 1 for i in (0, 20, 40))
    assert len(set(labels.tolist())) == 3
    assert np.allclose(centres[labels[0]], blobs[:20].mean(axis=0))


def test_no_more_clusters_than_distinct_points() -> None:
    labels, centres = kmeans(np.repeat([[1.0], [2.0]], 5, axis=0), 9, seed=0)
    assert sorted(centres.ravel().tolist()) == [1.0, 2.0]
    assert np.array_equal(labels[:5] == labels[0], np.ones(5))


CELLS = [
    *((3, 7), (4, 4), (4, 5), (4, 6), (5, 6), (5, 7), (5, 8), (6, 6), (6, 8), (6, 11), (7, 4), (7, 11), (8, 11)),
    *((9, 11), (9, 12), (10, 11), (11, 11), (11, 13), (12, 11), (12, 12), (13, 10), (14, 2), (14, 3), (14, 4)),
    *((14, 5), (14, 10), (15, 3), (15, 4), (16, 4)),
]
"""Rows and columns of a colour group on a slide of the demo."""


def cells(rng: np.random.Generator) -> np.ndarray:
    """Rows and columns of some cells of a grid: full of equal distances, where the last bits decide."""
    side = int(rng.integers(3, 18))
    chosen = np.sort(rng.permutation(side * side)[: int(rng.integers(2, 120))])
    return np.stack(np.divmod(chosen, side), axis=1).astype(np.float64)


def test_few_points_give_what_scikit_learn_gives() -> None:
    rng = np.random.default_rng(3)
    for number in range(80):
        given = cells(rng) if number % 4 else rng.normal(160, 30, (int(rng.integers(10, 300)), 3))
        k = max(1, int(len(given) * 0.15)) if number % 4 else 9
        found = small_kmeans(given, k, seed=number, starts=STARTS)
        with threadpool_limits(1):  # on several threads scikit-learn adds in the order in which they finish
            model = KMeans(k, n_init=STARTS, random_state=number, algorithm="lloyd").fit(given)
        assert found is not None
        np.testing.assert_array_equal(found[0], model.labels_)
        np.testing.assert_allclose(found[1], model.cluster_centers_, atol=1e-9)


def test_empty_clusters_take_the_points_that_scikit_learn_gives_them() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        given, centres = rng.normal(size=(30, 2)), rng.normal(size=(6, 2))
        labels = rng.choice([0, 2, 3], 30)  # 1, 4 and 5 are empty
        counts = np.bincount(labels, minlength=6)
        sums = np.stack([np.bincount(labels, column, minlength=6) for column in given.T], axis=1).astype(np.float64)
        expected, weights = sums.copy(), counts.astype(np.float64)
        _relocate_empty_clusters_dense(given, np.ones(30), centres, expected, weights, labels.astype(np.int32))
        _fill_empty(given, labels, centres, sums, counts)
        np.testing.assert_array_equal(sums, expected)
        np.testing.assert_array_equal(counts, weights)


def test_a_slide_on_which_a_cluster_runs_empty() -> None:
    given = np.array(CELLS, dtype=np.float64)
    found = small_kmeans(given, 4, seed=0, starts=STARTS)
    with threadpool_limits(1):
        model = KMeans(4, n_init=STARTS, random_state=0, algorithm="lloyd").fit(given)
    assert found is not None, "nothing is left to scikit-learn, whose import takes seconds"
    np.testing.assert_array_equal(found[0], model.labels_)


def test_many_points_or_dimensions_are_left_to_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(points: np.ndarray, k: int, seed: int, starts: int) -> None:
        asked.append(len(points))

    monkeypatch.setattr(kmeans_module, "small_kmeans", refuse)
    _, centres = kmeans(points(100), 4, seed=0)
    assert asked == [100]
    assert centres.shape == (4, 3), "what this cannot do is left to scikit-learn"
    kmeans(points(MOST_PAIRS // 9 + 1), 9, seed=0)
    kmeans(np.hstack([points(100)] * 2), 4, seed=0)
    assert asked == [100]
