"""Prototypes: the mixture of a slide, from that of all slides."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from slideseek.types import Bag
from slideseek_components.encoders.prototypes import Prototypes


def bag(features, name="s"):
    features = np.asarray(features, dtype=np.float32)
    return Bag(name, features, np.zeros((len(features), 2), dtype=np.int32), "")


@pytest.fixture(scope="module")
def slides():
    rng = np.random.default_rng(0)
    centres = np.array([[6, 0, 0], [0, 6, 0], [0, 0, 6]], dtype=np.float32)
    return [bag(rng.normal(size=(40, 3)) + centres[rng.integers(3, size=40)], f"s{i}") for i in range(10)]


def fitted(slides, **options):
    encoder = Prototypes(3, l2=False, **options)
    encoder.fit(slides, [""] * len(slides), [slide.slide_id for slide in slides])
    return encoder


def test_one_step_is_the_slides_own_expectation_maximisation(slides):
    """With hardly any prior, one step gives what scikit-learn's mixture gives after one step from the same start."""
    encoder, slide = fitted(slides, prior=1e-9, centre=False), slides[4]
    mixture = encoder.mixture_
    y = mixture.project(slide.features)
    own = GaussianMixture(
        3,
        covariance_type="diag",
        weights_init=mixture.weights,
        means_init=mixture.means,
        precisions_init=1 / mixture.variances,
        max_iter=1,
        reg_covar=0.0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        own.fit(y)
    expected = np.concatenate([own.weights_, own.means_.ravel(), own.covariances_.ravel()])
    assert np.allclose(encoder.encode(slide).rows[0], expected, rtol=1e-4, atol=1e-5)


def test_a_strong_prior_keeps_the_prototypes(slides):
    encoder = fitted(slides, prior=1e9)
    assert np.abs(encoder.encode(slides[0]).rows).max() < 1e-4
    whole = fitted(slides, prior=1e9, centre=False)
    mixture = whole.mixture_
    expected = np.concatenate([mixture.weights, mixture.means.ravel(), mixture.variances.ravel()])
    assert np.allclose(whole.encode(slides[0]).rows[0], expected, atol=1e-4)


def test_weights_say_how_much_of_a_slide_is_of_a_prototype(slides):
    encoder = fitted(slides, prior=0.1, centre=False)
    one_kind = bag(np.random.default_rng(2).normal((6, 0, 0), size=(50, 3)))
    weights = encoder.encode(one_kind).rows[0][:3]
    assert weights.max() > 0.98 and np.isclose(weights.sum(), 1)


def test_further_steps_change_the_code(slides):
    blurred = [
        bag(slide.features / 4 + np.random.default_rng(3).normal(size=(40, 3)), slide.slide_id) for slide in slides
    ]
    one, five = (fitted(blurred, steps=steps).encode(blurred[0]).rows for steps in (1, 5))
    assert not np.allclose(one, five, atol=1e-3)


@pytest.mark.parametrize(("option", "value"), [("components", 0), ("prior", 0.0), ("steps", 0), ("prior", np.nan)])
def test_options_out_of_range(option, value):
    with pytest.raises(ValueError, match=f"^{option}: "):
        Prototypes(**{option: value})
