"""Yottixel's barcodes against the rule written out, and its errors."""

import numpy as np
import pytest

from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.types import Bag
from slideseek_components.encoders.yottixel import Yottixel


def bag(features, slide_id="s1"):
    features = np.asarray(features, dtype=np.float32)
    return Bag(slide_id, features, np.zeros((len(features), 2), dtype=np.int32))


def test_bit_is_one_iff_the_next_feature_is_smaller():
    code = Yottixel().encode(bag([[3, 1, 1, 2, 0]]))
    assert code.rows.tolist() == [[0b10010000]]


def test_matches_the_rule_written_as_a_loop_and_its_spec():
    features = np.random.default_rng(0).normal(size=(7, 21)).astype(np.float32)
    code = Yottixel().encode(bag(features))
    spec = Yottixel().spec(21)
    assert (spec.kind, spec.width, spec.many) == ("bits", 20, True)
    assert code.mismatch(spec) == ""
    bits = np.unpackbits(code.rows.astype(np.uint8, copy=False), axis=1, count=20)
    for i, row in enumerate(features):
        assert [int(row[j + 1] - row[j] < 0) for j in range(20)] == bits[i].tolist()


def test_row_i_belongs_to_patch_i():
    features = np.random.default_rng(1).normal(size=(5, 33)).astype(np.float32)
    order = np.array([3, 1, 4, 0, 2])
    assert np.array_equal(Yottixel().encode(bag(features[order])).rows, Yottixel().encode(bag(features)).rows[order])


def test_differences_too_small_for_float32_still_count():
    tiny = np.nextafter(np.float32(0), np.float32(1))
    assert Yottixel().encode(bag([[tiny, 0]])).rows.tolist() == [[0b10000000]]


def test_too_narrow_features_are_refused():
    with pytest.raises(SlideseekError, match="at least 2"):
        Yottixel().spec(1)
    with pytest.raises(SlideseekError, match="at least 2"):
        Yottixel().encode(bag([[1.0]]))


def test_empty_bag():
    with pytest.raises(EmptyBagError, match="s1"):
        Yottixel().encode(bag(np.zeros((0, 4))))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_features_name_the_slide_and_the_patch(bad):
    features = np.ones((3, 4))
    features[1, 2] = bad
    with pytest.raises(SlideseekError, match=r"'s1'.*patch 1"):
        Yottixel().encode(bag(features))
