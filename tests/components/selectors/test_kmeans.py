"""k-means that gives the same bytes on any number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from slideseek_components.selectors.kmeans import kmeans


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
