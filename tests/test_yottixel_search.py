"""Yottixel from bags to distances, against its definition written as plain loops."""

import numpy as np

from slideseek.types import Bag
from slideseek_components.encoders.yottixel import Yottixel
from slideseek_components.indexes.hamming import Hamming


def definition(query, target):
    """Median over the query's patches of the least Hamming distance to a patch of the target."""

    def barcode(x):
        return [1 if x[i + 1] - x[i] < 0 else 0 for i in range(len(x) - 1)]

    least = []
    for q in query:
        one = barcode(q)
        least.append(min(sum(a != b for a, b in zip(one, barcode(t))) for t in target))
    return float(np.median(least))


def test_distances_equal_the_definition_on_a_thousand_pairs():
    rng = np.random.default_rng(0)
    for pair in range(1000):
        width = int(rng.integers(2, 24))
        bags = []
        for name in ("query", "target"):
            count = int(rng.integers(1, 6))
            # Few distinct values, so that equal neighbours (a difference of zero) happen often.
            features = rng.integers(0, 4, (count, width)).astype(np.float32)
            bags.append(Bag(name, features, np.zeros((count, 2), np.int32)))
        encoder, index = Yottixel(), Hamming()
        index.add([encoder.encode(bags[1])])
        (hit,) = index.search(encoder.encode(bags[0]), 1)
        assert hit.distance == definition(bags[0].features, bags[1].features), pair


def test_equal_distances_are_ordered_by_id_whatever_the_order_of_adding():
    rng = np.random.default_rng(1)
    encoder = Yottixel()
    features = rng.random((3, 9)).astype(np.float32)
    codes = [encoder.encode(Bag(f"s{n:02}", features, np.zeros((3, 2), np.int32))) for n in range(20)]
    for _ in range(5):
        index = Hamming()
        index.add([codes[n] for n in rng.permutation(20)])
        hits = index.search(codes[7], 8)
        assert [h.slide_id for h in hits] == [f"s{n:02}" for n in range(8)]
        assert {h.distance for h in hits} == {0.0}
