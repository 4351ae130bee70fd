"""Clusters of bit codes."""

from __future__ import annotations

import numpy as np

from slideseek_components.indexes.k_majority import k_majority, nearest_centres


def planted(width: int, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` codes around each of 6 far centres, a tenth of the bits flipped, and the centres."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 2, (6, width), np.uint8)
    bits = np.repeat(centres, count, axis=0) ^ (rng.random((6 * count, width)) < 0.1)
    return np.packbits(bits, axis=1), np.packbits(centres, axis=1)


def test_a_single_cluster_has_the_majority_of_each_bit() -> None:
    rows = np.packbits([[1, 1, 0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 0, 0, 1]], axis=1)
    assert np.unpackbits(k_majority(rows, 1, 5, 0)).tolist() == [1, 1, 0, 1, 1, 0, 0, 0]


def test_rounds_bring_the_centres_nearer_to_their_codes() -> None:
    rows, _ = planted(256, 50)

    def spread(rounds: int) -> int:
        centres = k_majority(rows, 6, rounds, 1)
        return int(np.bitwise_count(rows ^ centres[nearest_centres(rows, centres)]).sum())

    assert spread(10) < spread(1) < spread(0)


def test_the_same_seed_gives_the_same_centres() -> None:
    rows, _ = planted(64, 30)
    assert np.array_equal(k_majority(rows, 9, 4, 3), k_majority(rows, 9, 4, 3))
    assert not np.array_equal(k_majority(rows, 9, 0, 3), k_majority(rows, 9, 0, 4))


def test_duplicates_leave_empty_clusters_in_place() -> None:
    rows = np.repeat(np.array([[5], [250]], np.uint8), 20, axis=0)
    assert {*k_majority(rows, 4, 3, 0).ravel().tolist()} <= {5, 250}
