"""Mean pooling: exact value, patch order, errors."""

import numpy as np
import pytest

from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.types import Bag
from slideseek_components.encoders.mean import Mean


def bag(features):
    features = np.asarray(features, dtype=np.float32)
    return Bag("s1", features, np.zeros((len(features), 2), dtype=np.int32))


def test_is_the_mean():
    features = np.random.default_rng(0).normal(size=(700, 9)).astype(np.float32)
    code = Mean().encode(bag(features))
    assert code.mismatch(Mean().spec(9)) == ""
    np.testing.assert_allclose(code.rows[0], features.astype(np.float64).mean(axis=0), rtol=1e-6)


def test_patch_order_never_shows_even_where_addition_is_not_associative():
    rng = np.random.default_rng(1)
    features = (rng.normal(size=(1000, 16)) * 10.0 ** rng.integers(-20, 20, size=(1000, 16))).astype(np.float32)
    wanted = Mean().encode(bag(features)).rows.tobytes()
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(features))
        assert Mean().encode(bag(features[order])).rows.tobytes() == wanted


def test_l2_gives_unit_length_and_keeps_zero():
    assert np.linalg.norm(Mean(l2=True).encode(bag([[3.0, 4.0], [3.0, 4.0]])).rows) == pytest.approx(1)
    assert Mean(l2=True).encode(bag([[0.0, 0.0]])).rows.tolist() == [[0.0, 0.0]]


def test_large_values_do_not_overflow():
    top = np.finfo(np.float32).max
    assert Mean().encode(bag([[top], [top]])).rows[0, 0] == top


def test_errors():
    with pytest.raises(EmptyBagError):
        Mean().encode(bag(np.zeros((0, 2))))
    with pytest.raises(SlideseekError, match="'s1'"):
        Mean().encode(bag([[1.0, np.nan]]))
    with pytest.raises(SlideseekError, match="width 0"):
        Mean().encode(bag(np.zeros((2, 0))))
