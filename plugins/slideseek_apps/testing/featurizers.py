"""The checks for featurizers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.interfaces import Described, Resizing
from slideseek.types import FeaturizerCard, Float32, UInt8
from slideseek_apps.testing.checks import Check, Make, demand, having, prepared, require
from slideseek_apps.testing.components import component_checks
from slideseek_apps.testing.texts import featurizer_text_checks
from slideseek_apps.testing.toys import toy_images

TOLERANCE = 1e-5
"""Allowed difference, relative to the largest value: a larger batch may add in another order."""

CARD_SECONDS = 0.25
"""Time limit for a card: a list shows many cards, so they must not read weights or build a network."""


def featurizer_checks(side: int = 64) -> tuple[Check, ...]:
    """Return all checks for a featurizer; the toy images are `side` pixels wide and high."""
    on_images = (
        features_have_the_stated_width,
        empty_batch_gives_no_rows,
        row_depends_on_its_image_alone,
        rows_follow_the_images,
        images_are_left_alone,
        read_only_images_are_accepted,
        strided_images_are_accepted,
        fresh_featurizer_same_features,
        different_images_differ,
        *having(Described, card_states_the_width),
    )
    capable = (*having(Described, card_is_cheap), *having(Resizing, patches_of_the_side_are_featurized))
    about = component_checks("featurizer") + prepared(width_is_positive, *capable)
    return about + prepared(*on_images, side=side) + featurizer_text_checks()


def width_is_positive(make: Make) -> None:
    """`width` is a positive integer, known before any image is seen."""
    width = make().width
    fix = "return the length of one feature vector as a plain int"
    demand(isinstance(width, int) and not isinstance(width, bool) and width > 0, repr(width), fix)


def card_states_the_width(make: Make, side: int) -> None:
    """A featurizer's card states its width, or None if it depends on weights not read yet."""
    featurizer: Any = make()
    before = _card(featurizer)
    width = featurizer.featurize(toy_images(side=side)[:1]).shape[1]
    for when, card in (("before", before), ("after", _card(featurizer))):
        fix = "state the length of one feature vector, or None until the weights are read"
        want = f"width None or {width} on the card {when} an image is featurized"
        require(card.width is None or card.width == width, want, f"width {card.width!r}", fix)


def card_is_cheap(make: Make) -> None:
    """A featurizer's card is returned quickly: no weights are read and no network is built."""
    seconds = []
    for _ in range(3):  # take the fastest: other programs may have slowed down some
        featurizer = make()
        start = time.perf_counter()
        _card(featurizer)
        seconds.append(time.perf_counter() - start)
    fix = "use only the options and check whether files exist; read weights in featurize()"
    passed = min(seconds) <= CARD_SECONDS
    require(passed, f"card() to return within {CARD_SECONDS} s", f"{min(seconds):.2f} s, the best of three", fix)


def patches_of_the_side_are_featurized(make: Make) -> None:
    """`side` is 0 or the side of the images that the featurizer resizes to, which it featurizes as they are."""
    featurizer = make()
    side: Any = featurizer.side  # a plugin may return anything
    require(type(side) is int and side >= 0, "side to be an int of at least 0", repr(side), "return 0 for any size")
    _require_shape(featurizer.featurize(toy_images(count=2, side=side or 64)), 2, featurizer.width)


def features_have_the_stated_width(make: Make, side: int) -> None:
    """Features are finite float32 (n, width)."""
    featurizer, images = make(), toy_images(side=side)
    features = featurizer.featurize(images)
    _require_shape(features, len(images), featurizer.width)
    fix = "guard divisions and logarithms against flat images"
    demand(bool(np.isfinite(features).all()), f"{int((~np.isfinite(features)).sum())} NaN or infinite values", fix)


def empty_batch_gives_no_rows(make: Make, side: int) -> None:
    """An empty batch gives float32 (0, width)."""
    featurizer = make()
    _require_shape(featurizer.featurize(toy_images(side=side)[:0]), 0, featurizer.width)


def row_depends_on_its_image_alone(make: Make, side: int) -> None:
    """An image alone gives the same row as inside a batch."""
    featurizer, images = make(), toy_images(side=side)
    together = featurizer.featurize(images)
    alone = np.concatenate([featurizer.featurize(images[i : i + 1]) for i in range(len(images))])
    fix = "use no statistics over the batch: put a network in eval() mode, normalise each image separately"
    _require_close(together, alone, "the features of an image alone to equal its row in a batch", fix)


def rows_follow_the_images(make: Make, side: int) -> None:
    """Row i belongs to image i: images in another order give rows in that order."""
    featurizer, images = make(), toy_images(side=side)
    order = np.roll(np.arange(len(images))[::-1], 1)
    fix = "undo any sorting or bucketing before returning"
    what = "rows in the order of the images"
    _require_close(featurizer.featurize(images)[order], featurizer.featurize(images[order]), what, fix)


def images_are_left_alone(make: Make, side: int) -> None:
    """`featurize` does not write into its input."""
    images = toy_images(side=side).copy()
    make().featurize(images)
    fix = "work on a copy: images.astype(np.float32) makes one, torch.from_numpy does not"
    demand(np.array_equal(images, toy_images(side=side)), "changed pixels after featurize()", fix)


def read_only_images_are_accepted(make: Make, side: int) -> None:
    """Read-only images give the same features."""
    images = toy_images(side=side)
    fix = "do not change the images' flags, and copy before writing"
    what = "the same features for read-only images"
    _require_close(make().featurize(images.copy()), make().featurize(images), what, fix)


def strided_images_are_accepted(make: Make, side: int) -> None:
    """Images that are not contiguous in memory give the same features."""
    featurizer, images = make(), toy_images(side=side)
    plain = featurizer.featurize(images)
    wide = np.zeros((len(images), side, side, 4), dtype=np.uint8)
    wide[..., :3] = images
    mirrored = np.ascontiguousarray(images[:, :, ::-1])
    views: dict[str, UInt8] = {"channels of RGBA": wide[..., :3], "a mirrored view": mirrored[:, :, ::-1]}
    for name, view in views.items():
        fix = "call np.ascontiguousarray(images) before passing them to code that needs it"
        _require_close(plain, featurizer.featurize(view), f"the same features for images passed as {name}", fix)


def fresh_featurizer_same_features(make: Make, side: int) -> None:
    """A fresh featurizer with the same options gives the same features."""
    images = toy_images(side=side)
    fix = "seed random numbers from an option, and load weights instead of drawing them at random"
    what = "two fresh featurizers with equal options to agree"
    _require_close(make().featurize(images), make().featurize(images), what, fix)


def different_images_differ(make: Make, side: int) -> None:
    """Images that differ in colour and grain give different features."""
    features = make().featurize(toy_images(side=side))
    distinct = len(np.unique(features, axis=0))
    fix = "check that pixel values reach the features and are not scaled to zero"
    want = f"{len(features)} different images to give {len(features)} different rows"
    require(distinct == len(features), want, f"{distinct} different rows", fix)


def _card(featurizer: Described) -> FeaturizerCard:
    card = featurizer.card()
    fix = "fill in a FeaturizerCard: width, patch_size, mpp, licence, weights, present"
    passed = isinstance(card, FeaturizerCard)
    require(passed, "card() to return slideseek.types.FeaturizerCard", type(card).__name__, fix)
    return card


def _require_shape(features: Any, n: int, width: int) -> None:
    is_array = isinstance(features, np.ndarray)
    fix = "return np.float32 of shape (number of images, self.width), a NumPy array on the CPU"
    passed = is_array and features.dtype == np.float32 and features.shape == (n, width)
    want = f"a float32 array of shape ({n}, {width})"
    require(passed, want, f"{features.dtype} {features.shape}" if is_array else type(features).__name__, fix)


def _require_close(expected: Float32, got: Float32, what: str, fix: str) -> None:
    same_shape = expected.shape == got.shape
    worst = _relative_difference(expected, got) if same_shape else np.inf
    found = f"a relative difference of {worst:.2g}" if same_shape else f"shapes {expected.shape} and {got.shape}"
    require(worst <= TOLERANCE, f"{what}, within {TOLERANCE:g} of the largest value", found, fix)


def _relative_difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    if a.size == 0:
        return 0.0
    scale = max(float(np.abs(a).max()), float(np.abs(b).max())) or 1.0
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, which counts as a difference
        worst = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()) / scale
    return worst if np.isfinite(worst) else np.inf
