"""The survey of the training slides."""

from typing import Any

import numpy as np
import pytest

from slideseek.errors import SlideseekError
from slideseek.types import Bag
from slideseek_components.encoders.deep.training_set import split, survey


def bag(features, slide_id="s", site=""):
    features = np.asarray(features, dtype=np.float32)
    return Bag(slide_id, features, np.zeros((len(features), 2), dtype=np.int32), site)


def look(bags, labels=None, groups=None, **options):
    options = {"with_sites": False, "with_labels": False, "validation": 0.0, "seed": 0} | options
    return survey(bags, labels or [""] * len(bags), groups or [""] * len(bags), **options)


def test_mean_and_deviation_of_the_patches_trained_on():
    rng = np.random.default_rng(0)
    bags = [bag(rng.normal(5, 3, size=(n, 4)) * [1, 10, 100, 0], f"s{n}") for n in (3, 2500, 40)]
    known = look(bags)
    patches = np.concatenate([b.features for b in bags]).astype(np.float64)
    np.testing.assert_allclose(known.shift, patches.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(known.scale[:3], patches.std(axis=0)[:3], rtol=1e-9)
    assert known.scale[3] == 1
    held = look(bags, groups=["a", "b", "c"], validation=0.3)
    rest = np.concatenate([b.features for b, out in zip(bags, held.validation) if not out]).astype(np.float64)
    np.testing.assert_allclose(held.shift, rest.mean(axis=0), rtol=1e-9)


def test_names_are_sorted_and_numbered():
    bags = [bag([[1.0]], "a", "lung"), bag([[1.0]], "b", "brain"), bag(np.zeros((0, 1)), "c", "empty")]
    known = look(bags, ["x", "y", "z"], with_sites=True, with_labels=True)
    assert known.site_names == ("brain", "lung") and known.label_names == ("x", "y")
    assert known.sites[:2].tolist() == [1, 0] and known.counts.tolist() == [1, 1, 0]


def test_split_keeps_a_patient_on_one_side():
    groups = [f"p{i % 20}" for i in range(100)]
    out = split(groups, 0.25, 0)
    sides: dict[str, Any] = {}
    for group, held in zip(groups, out):
        sides.setdefault(group, set()).add(bool(held))
    assert all(len(side) == 1 for side in sides.values())
    assert out.sum() == 25
    assert (split(groups, 0.25, 0) == out).all() and (split(groups, 0.25, 1) != out).any()
    assert split(["a", "b"], 0.01, 0).sum() == 1 and split(["a", "b"], 0.99, 0).sum() == 1
    assert split(["", "", "", ""], 0.5, 0).sum() == 2
    with pytest.raises(SlideseekError, match="two patients"):
        split(["a", "a"], 0.5, 0)


def test_errors_name_the_slide():
    good = bag([[1.0]], "good", "lung")
    with pytest.raises(SlideseekError, match="'bad' has no site"):
        look([good, bag([[1.0]], "bad")], with_sites=True)
    with pytest.raises(SlideseekError, match="'good' has no label"):
        look([good], with_labels=True)
    with pytest.raises(SlideseekError, match=r"'nan'.*patch 0"):
        look([good, bag([[np.nan]], "nan")])
    with pytest.raises(SlideseekError, match=r"'odd'.*width 2"):
        look([good, bag([[1.0, 2.0]], "odd")])
    with pytest.raises(SlideseekError, match="no training slide"):
        look([bag(np.zeros((0, 3)))])
    with pytest.raises(ValueError, match="one of each"):
        survey([good], [], [""], with_sites=False, with_labels=False, validation=0, seed=0)


def test_fingerprint_follows_everything_that_decides_training():
    bags = [bag([[1.0, 2.0]], "a"), bag([[3.0, 4.0]], "b")]
    base = look(bags).fingerprint
    assert look(bags).fingerprint == base
    changed = [
        look([bags[0], bag([[3.0, 4.1]], "b")]),
        look([bags[1], bags[0]]),
        look(bags, labels=["x", "y"]),
        look(bags, groups=["p", "q"]),
        look([bags[0], bag([[3.0, 4.0]], "b", "lung")]),
    ]
    assert base not in {known.fingerprint for known in changed}
