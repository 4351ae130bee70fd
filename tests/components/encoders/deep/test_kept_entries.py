"""The choice of entries against its definition."""

import numpy as np
import pytest

from slideseek_components.encoders.deep.kept_entries import choose, keep_entries, spread
from slideseek_components.encoders.deep.settings import Settings


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    labels = ["a"] * 6 + ["b"] * 9 + ["c"] * 4
    values = rng.normal(size=(19, 30)) * np.linspace(0.1, 3, 30)
    values[:, 7] += [0] * 6 + [9] * 9 + [-9] * 4
    values[:, 5] = 4.0
    return labels, values


def test_spread_equals_numpy(data):
    labels, values = data
    found = spread(zip(labels, values))
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.variance, values.var(axis=0), rtol=1e-9, atol=1e-12)
    within = sum(values[[i for i, own in enumerate(labels) if own == c]].var(axis=0) * labels.count(c) for c in "abc")
    np.testing.assert_allclose(found.within, within, rtol=1e-9, atol=1e-12)
    assert (found.slides, found.classes) == (19, 3)


def test_top_by_variance_and_by_separation(data):
    labels, values = data
    found = spread(zip(labels, values))
    assert choose(found, "variance", 5).tolist() == sorted(np.argsort(-values.var(axis=0))[:5].tolist())
    assert choose(found, "separation", 1).tolist() == [7]
    ranked = [choose(found, by, 30).tolist() for by in ("variance", "separation")]
    assert ranked == [list(range(30))] * 2
    assert 5 not in choose(found, "variance", 29) and 5 not in choose(found, "separation", 29)


def test_ties_fall_to_the_lower_position():
    found = spread([("a", np.ones(6)), ("b", np.ones(6))])
    assert choose(found, "variance", 3).tolist() == [0, 1, 2]


def test_slides_of_one_class_are_told_apart_by_variance(data):
    _, values = data
    found = spread(("a", row) for row in values)
    assert choose(found, "separation", 5).tolist() == choose(found, "variance", 5).tolist()


def test_classes_of_one_slide_are_told_apart_by_the_variance_between_them(data):
    _, values = data
    found = spread((str(i), row) for i, row in enumerate(values))
    with np.errstate(all="raise"):
        assert choose(found, "separation", 5).tolist() == choose(found, "variance", 5).tolist()


def test_kept_entries_are_centred_and_scaled_by_training_slides(data):
    labels, values = data
    kept = keep_entries(spread(zip(labels, values)), Settings(keep=10, centre=True, scale=True))
    chosen = kept.chosen
    wanted = (values[0, chosen] - values[:, chosen].mean(axis=0)) / values[:, chosen].std(axis=0)
    np.testing.assert_allclose(kept.apply(values[0, chosen]), wanted, rtol=1e-5, atol=1e-6)
    plain = keep_entries(spread(zip(labels, values)), Settings(keep=0))
    assert plain.chosen is None and plain.centre is None and plain.scale is None
    assert np.array_equal(plain.apply(values[0]), values[0])
    constant = keep_entries(spread([("a", np.ones(2)), ("a", np.ones(2))]), Settings(scale=True))
    assert constant.scale is not None and constant.scale.tolist() == [1, 1]
