"""The sample of training patches: bounded, seeded, and the same as sorting all keys at once."""

import numpy as np
import pytest

from slideseek.types import Bag
from slideseek_components.encoders.bags import canonical_order
from slideseek_components.encoders.sample import sample_patches


def make_bags(sizes):
    rng = np.random.default_rng(0)
    return [
        Bag(f"s{i}", rng.normal(size=(n, 3)).astype(np.float32), np.zeros((n, 2), np.int32), "ab"[i % 2])
        for i, n in enumerate(sizes)
    ]


def plain(bags, limit, seed):
    """All patches in memory, the smallest keys of them, in the order of bags and keys."""
    keys, rows = [np.zeros(0)], [np.zeros((0, 3), np.float32)]
    for i, bag in enumerate(bags):
        own = np.random.default_rng([seed, i]).random(len(bag))
        order = np.argsort(own, kind="stable")
        keys.append(own[order])
        rows.append(bag.features[canonical_order(bag.features)[order]] if len(bag) else bag.features)
    order = np.argsort(np.concatenate(keys), kind="stable")
    return np.concatenate(rows)[np.sort(order[:limit])]


@pytest.mark.parametrize("limit", [1, 7, 60, 100, 1000])
def test_the_sample_equals_that_of_all_patches_at_once(limit):
    bags = make_bags([5, 0, 40, 3, 200, 1, 1, 60, 2])
    found = sample_patches(bags, limit, seed=4)
    assert list(found) == [""]
    assert found[""].tobytes() == plain(bags, limit, 4).tobytes()


def test_parts_are_sampled_apart_and_patch_order_does_not_matter():
    bags = make_bags([30, 20, 10, 50, 5])
    shuffled = [Bag(bag.slide_id, bag.features[::-1].copy(), bag.xy, bag.site) for bag in bags]
    first, second = (sample_patches(given, 25, 1, lambda bag: bag.site) for given in (bags, shuffled))
    assert {part: len(rows) for part, rows in first.items()} == {"a": 25, "b": 25}
    assert all(first[part].tobytes() == second[part].tobytes() for part in "ab")
    own = {row.tobytes() for bag in bags if bag.site == "a" for row in bag.features}
    assert {row.tobytes() for row in first["a"]} <= own
    assert sample_patches(make_bags([0, 0]), 5, 0) == {}
