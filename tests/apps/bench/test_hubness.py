"""The measures of hubs: their definitions on small cases, and what they leave out."""

from __future__ import annotations

import numpy as np
import pytest

from slideseek_apps.bench.hubness import hubness


def test_a_slide_that_is_found_by_all_is_the_hub() -> None:
    found = {"a": 9, "b": 1, "c": 1, "d": 1}
    measured = hubness(found, dict.fromkeys("abcde", 2.4), {"a": 500, "b": 5, "c": 6, "d": 7, "e": 4})
    assert measured is not None
    assert (measured.hub, measured.largest, measured.never, measured.slides) == ("a", 9 / 2.4, 1, 5)
    assert measured.skew > 1 and measured.size == pytest.approx(0.894427)


def test_shares_count_not_numbers() -> None:
    """A slide that twice as many queries could find may be found twice as often."""
    measured = hubness({"a": 4, "b": 2, "c": 2}, {"a": 4.0, "b": 2.0, "c": 2.0}, {})
    assert measured is not None
    assert (measured.skew, measured.largest, measured.size) == (0.0, 1.0, None)


def test_correlation_and_skew_are_those_of_scipy() -> None:
    from scipy.stats import skew, spearmanr

    rng = np.random.default_rng(0)
    names = [f"s{i}" for i in range(40)]
    found = dict(zip(names, rng.integers(0, 9, 40).tolist()))
    patches = dict(zip(names, rng.integers(5, 20, 40).tolist()))
    measured = hubness(found, dict.fromkeys(names, 1.0), patches)
    assert measured is not None
    assert measured.size == pytest.approx(spearmanr([*found.values()], [*patches.values()])[0])
    assert measured.skew == pytest.approx(skew([*found.values()]))


def test_what_cannot_be_measured_is_none() -> None:
    assert hubness({"a": 1}, {"a": 1.0}, {"a": 3}) is None
    assert hubness({"a": 1, "b": 1}, {"a": 1.0, "b": 0.0}, {}) is None
    same = hubness({"a": 2, "b": 1}, {"a": 1.0, "b": 1.0}, {"a": 3, "b": 3})
    assert same is not None and same.size is None
    unknown = hubness({"a": 2, "b": 1}, {"a": 1.0, "b": 1.0}, {"a": 3})
    assert unknown is not None and unknown.size is None
