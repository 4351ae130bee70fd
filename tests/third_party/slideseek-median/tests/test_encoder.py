"""The encoder follows its interface and gives the expected codes."""

import numpy as np
import pytest
from slideseek_median import plugin
from slideseek_median.encoder import MedianSign

from slideseek.plugins import load_registry
from slideseek_apps.testing import Check, encoder_checks, toy_bags


@pytest.mark.parametrize("check", encoder_checks(), ids=lambda check: check.__name__)
def test_conformance(check: Check) -> None:
    check(MedianSign)


def test_registered() -> None:
    registry = load_registry(extra=[("under-test", plugin)], disabled=["slideseek-median"])
    assert registry.load("encoder", "median-sign") is MedianSign


def test_half_of_the_training_slides_lie_above() -> None:
    bags, labels, groups = toy_bags(count=8, width=8)
    encoder = MedianSign()
    encoder.fit(bags, labels, groups)
    bits = np.unpackbits(np.concatenate([encoder.encode(bag).rows for bag in bags]), axis=1)
    assert bits.sum(axis=0).tolist() == [4] * 8
