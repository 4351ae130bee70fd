"""The rerankers: their distances are those of their definitions, whatever the order and number of the patches."""

import numpy as np
import pytest

from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.interfaces import MeasuresSets, implements
from slideseek.options import query_options
from slideseek.types import Bag
from slideseek_apps.testing.option_descriptions import describe_options
from slideseek_components.encoders.yottixel import Yottixel
from slideseek_components.indexes.median_of_minima import Direction
from slideseek_components.rerankers import patch_pairs
from slideseek_components.rerankers.median_of_min import MedianOfMin
from slideseek_components.rerankers.set_cosine import SetCosine

WIDTH = 37
DIRECTIONS: tuple[Direction, ...] = ("query", "target", "symmetric")
EVERY = [
    made
    for direction in DIRECTIONS
    for made in (
        MedianOfMin(direction=direction),
        MedianOfMin(direction=direction, on="barcodes"),
        SetCosine(direction=direction),
    )
]


def bag(seed, patches, width=WIDTH):
    features = np.random.default_rng(seed).normal(size=(patches, width)).astype(np.float32)
    return Bag(f"b{seed}", features, np.zeros((patches, 2), np.int32))


def defined(reranker, query, target):
    """Return the distance by its definition, one pair of patches at a time."""
    between = np.empty((len(query), len(target)))
    for i, one in enumerate(query.features.astype(np.float64)):
        for j, other in enumerate(target.features.astype(np.float64)):
            if getattr(reranker, "on", "") == "barcodes":
                between[i, j] = np.count_nonzero((one[1:] < one[:-1]) != (other[1:] < other[:-1]))
            else:
                between[i, j] = 1 - one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
    middle = np.median if isinstance(reranker, MedianOfMin) else np.mean
    forth, back = middle(between.min(axis=1)), middle(between.min(axis=0))
    return {"query": forth, "target": back, "symmetric": (forth + back) / 2}[reranker.direction]


@pytest.mark.parametrize("reranker", EVERY, ids=repr)
class TestEvery:
    def test_its_distance_is_that_of_its_definition(self, reranker):
        query, others = bag(0, 7), [bag(seed, seed) for seed in range(1, 9)]
        expected = [defined(reranker, query, other) for other in others]
        np.testing.assert_allclose(reranker.distances(query, others), expected, atol=1e-6)

    def test_the_order_of_patches_does_not_matter(self, reranker):
        query, other, rng = bag(0, 33), bag(1, 41), np.random.default_rng(0)
        expected = reranker.distances(query, [other])
        for _ in range(5):
            mixed = [Bag(b.slide_id, rng.permutation(b.features), b.xy) for b in (query, other)]
            assert reranker.distances(mixed[0], mixed[1:]) == expected

    def test_a_distance_depends_on_two_slides_alone(self, reranker):
        query, others = bag(0, 9), [bag(seed, 2 + seed) for seed in range(1, 6)]
        together = reranker.distances(query, others)
        assert [reranker.distances(query, [other])[0] for other in others] == together.tolist()
        assert reranker.distances(query, others[::-1]).tolist() == together[::-1].tolist()

    def test_it_is_explained_by_what_it_measures(self, reranker):
        query, other = bag(0, 9), bag(1, 12)
        between = reranker.row_distances(query.features, other.features)
        assert between.shape == (9, 12)
        assert reranker.set_distance(between) == reranker.distances(query, [other])[0]
        assert implements(reranker, MeasuresSets)

    def test_blocks_do_not_change_it(self, reranker, monkeypatch):
        query, other = bag(0, 50), bag(1, 70)
        whole = reranker.distances(query, [other])
        monkeypatch.setattr(patch_pairs, "BLOCK_ROWS", 16)
        np.testing.assert_array_equal(reranker.distances(query, [other]), whole)

    def test_a_slide_is_nearest_to_itself(self, reranker):
        query = bag(0, 9)
        assert reranker.distances(query, [query, bag(1, 9)]).argmin() == 0
        assert reranker.distances(query, [query])[0] == pytest.approx(0, abs=1e-6)

    def test_candidates_are_read_one_at_a_time(self, reranker):
        alive, most = [0], [0]

        class Counted(Bag):
            def __del__(self):
                alive[0] -= 1

        class Lazy:
            def __len__(self):
                return 6

            def __getitem__(self, at):
                alive[0] += 1
                most[0] = max(most[0], alive[0])
                one = bag(at, 5)
                return Counted(one.slide_id, one.features, one.xy)

        reranker.distances(bag(9, 4), Lazy())
        assert most[0] <= 2

    def test_no_candidates_are_no_distances(self, reranker):
        assert reranker.distances(bag(0, 3), []).shape == (0,)

    def test_what_cannot_be_compared_is_an_error(self, reranker):
        with pytest.raises(EmptyBagError):
            reranker.distances(bag(0, 0), [bag(1, 3)])
        with pytest.raises(EmptyBagError):
            reranker.distances(bag(1, 3), [bag(0, 0)])
        with pytest.raises(SlideseekError, match="width"):
            reranker.distances(bag(0, 3), [bag(1, 3, WIDTH + 1)])
        broken = bag(2, 3)
        broken.features[1, 1] = np.nan
        with pytest.raises(SlideseekError, match="'b2' has NaN"):
            reranker.distances(bag(0, 3), [broken])


def test_a_patch_of_zeros_is_like_nothing():
    query, other = bag(0, 2), bag(1, 3)
    query.features[0] = 0
    assert SetCosine().row_distances(query.features, other.features)[0].tolist() == [1, 1, 1]
    assert np.isfinite(MedianOfMin().distances(query, [other])).all()


def test_barcodes_are_those_of_the_encoder():
    query, other = bag(0, 4), bag(1, 5)
    codes = [Yottixel().encode(one).rows.astype(np.uint8, copy=False) for one in (query, other)]
    rows = [np.unpackbits(code, axis=1) for code in codes]
    expected = (rows[0][:, None] != rows[1][None]).sum(axis=2)
    assert MedianOfMin(on="barcodes").row_distances(query.features, other.features).tolist() == expected.tolist()
    with pytest.raises(SlideseekError, match="at least 2"):
        MedianOfMin(on="barcodes").distances(bag(0, 3, 1), [bag(1, 3, 1)])


def test_names_of_distances():
    assert (MedianOfMin().distance_name, MedianOfMin(on="barcodes").distance_name) == ("1 - cosine", "differing bits")
    assert SetCosine().distance_name == "1 - cosine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"depth": 0}, "depth: at least 1"),
        ({"direction": "both"}, "direction: one of query"),
        ({"on": "pixels"}, "on: features or barcodes"),
    ],
)
def test_options_out_of_range(options, said):
    with pytest.raises(ValueError, match=said):
        MedianOfMin(**options)


def test_every_option_can_be_given_with_a_query():
    assert query_options(MedianOfMin()) == ("depth", "direction", "on")
    assert query_options(SetCosine()) == ("depth", "direction")
    assert all(option.at_query for option in describe_options(MedianOfMin))
