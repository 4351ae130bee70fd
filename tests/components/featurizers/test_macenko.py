"""Stain normalisation: equal colours for one tissue stained differently, and patches that cannot be unmixed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from slideseek.config import ComponentConfig, make_component
from slideseek.plugins import load_registry
from slideseek.slides.reader import open_slide
from slideseek_components.featurizers.colour_texture import ColourTexture
from slideseek_components.featurizers.macenko import Macenko, normalised

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.stain_normalisation import LABORATORIES, restained


@pytest.mark.shared
@pytest.mark.parametrize("name", list(LABORATORIES))
def test_another_laboratory_looks_the_same_after_normalisation(shared_data: Path, name: str) -> None:
    with open_slide(shared_data / "slides-atlas" / "colon-adenocarcinoma__HE.tif") as slide:
        image = slide.read((1500, 1500), 224, 1.0)
    other = restained(image, name)

    def apart(one: np.ndarray, two: np.ndarray) -> float:
        return float(np.abs(one.reshape(-1, 3).mean(axis=0) - two.reshape(-1, 3).mean(axis=0)).max())

    assert apart(normalised(image), normalised(other)) < 0.75 * apart(image, other)


@pytest.mark.parametrize("colour", [(244, 244, 244), (200, 120, 180), (0, 0, 0)])
def test_a_patch_without_two_stains_stays_as_it_is(colour: tuple[int, int, int]) -> None:
    plain = np.full((64, 64, 3), colour, np.uint8)
    assert np.array_equal(normalised(plain), plain)


def test_it_passes_on_what_the_inner_featurizer_says() -> None:
    inner = ColourTexture(side=64)
    made = Macenko(of=inner)
    assert (made.width, made.side, made.fingerprint(), made.card()) == (
        *(inner.width, inner.side, inner.fingerprint(), inner.card()),
    )
    images = np.random.default_rng(0).integers(60, 250, (3, 64, 64, 3), dtype=np.uint8)
    expected = inner.featurize(np.stack([normalised(image) for image in images]))
    assert np.array_equal(made.featurize(images), expected)


def test_a_configuration_names_the_inner_featurizer() -> None:
    config = ComponentConfig("featurizer", "macenko", {"of": {"use": "colour-texture", "side": 64}})
    assert make_component(load_registry(), config, "engine.e.featurizer") == Macenko(of=ColourTexture(side=64))
