"""Preset `paper` stays as it is: the codes of small seeded slides are those stored beside this file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek_apps.testing.toys import toy_bags
from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.deep_sfv import DeepSparseFisherVector

STORED = Path(__file__).with_name("paper_codes.json")
SMALL: dict[str, Any] = {"preset": "paper", "hidden": (5, 4), "latent": 3, "epochs": 2, "device": "cpu"}
MAKERS = {
    "deep-fv": lambda: DeepFisherVector(keep=24, **SMALL),
    "deep-sfv": lambda: DeepSparseFisherVector(keep=24, **SMALL),
    "deep-bfv": lambda: DeepBinaryFisherVector(bits=64, **SMALL),
    "deep-sbfv": lambda: DeepSparseBinaryFisherVector(bits=64, **SMALL),
}


def codes_of(name):
    """Return the codes of four slides as lists: floats, or the bytes of the bits."""
    bags, labels, groups = toy_bags(count=12)
    encoder = MAKERS[name]()
    encoder.fit(bags, labels, groups)
    return [encoder.encode(bag).rows[0].tolist() for bag in bags[:4]]


@pytest.mark.parametrize("name", MAKERS)
def test_paper_codes_are_those_of_the_first_release(name):
    wanted = json.loads(STORED.read_text())[name]
    found = codes_of(name)
    if name in ("deep-bfv", "deep-sbfv"):
        assert found == wanted
    else:
        assert np.array(found) == pytest.approx(np.array(wanted), abs=1e-6)
