"""Colour and texture descriptors: what changes them, what must not, and the numbers behind them."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.color import rgb2hsv

from slideseek.interfaces import Described, Featurizer, Fingerprinted, implements
from slideseek.types import UInt8
from slideseek_components.featurizers.colour_texture import WIDTH, ColourTexture
from slideseek_components.featurizers.pixel_counts import (
    HUES,
    LEVELS,
    count_colours,
    count_patterns,
    count_slopes,
    halve,
)
from slideseek_components.featurizers.stains import EOSIN, HAEMATOXYLIN, stain_table


@pytest.fixture
def images() -> UInt8:
    return np.random.default_rng(3).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)


def test_protocols_shapes_and_card(images: UInt8) -> None:
    featurizer = ColourTexture()
    assert isinstance(featurizer, Featurizer)
    assert implements(featurizer, Fingerprinted)
    assert implements(featurizer, Described)
    features = featurizer.featurize(images)
    assert features.shape == (4, featurizer.width) == (4, WIDTH)
    assert features.dtype == np.float32
    assert featurizer.featurize(images[:0]).shape == (0, WIDTH)
    assert featurizer.card().present
    assert featurizer.card().width == WIDTH


def test_a_row_depends_on_its_image_alone(images: UInt8) -> None:
    together = ColourTexture().featurize(images)
    alone = np.concatenate([ColourTexture().featurize(image[None]) for image in images])
    np.testing.assert_array_equal(together, alone)
    assert len(np.unique(together, axis=0)) == len(images)


def test_quarter_turns_and_mirrors_change_nothing(images: UInt8) -> None:
    features = ColourTexture().featurize(images)
    for turned in (np.rot90(images, axes=(1, 2)), np.rot90(images, 2, axes=(1, 2)), images[:, :, ::-1]):
        np.testing.assert_allclose(ColourTexture().featurize(turned), features, atol=1e-6)


@pytest.mark.parametrize("side", [1, 2, 7, 33, 100])
def test_any_side_gives_unit_histograms(side: int) -> None:
    image = np.random.default_rng(side).integers(0, 256, (1, side, side, 3), dtype=np.uint8)
    features = ColourTexture().featurize(image)
    parts = 6 + 3 * 4  # colours and stains, then three histograms at each of four scales
    assert np.linalg.norm(features) == pytest.approx(np.sqrt(parts), abs=1e-5)


def test_grey_has_no_hue() -> None:
    grey = np.full((1, 16, 16, 3), 128, dtype=np.uint8)
    assert not ColourTexture().featurize(grey)[0, :HUES].any()


def test_side_resizes_first() -> None:
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (1, 32, 32, 3), dtype=np.uint8)
    fine = np.repeat(np.repeat(coarse, 2, axis=1), 2, axis=2)
    assert ColourTexture(side=32).featurize(coarse) == pytest.approx(ColourTexture().featurize(coarse))
    assert np.linalg.norm(ColourTexture(side=32).featurize(fine) - ColourTexture().featurize(fine)) > 0.5
    with pytest.raises(ValueError, match="side: 0 or 8 to 4096 pixels, not 5"):
        ColourTexture(side=5)


def test_texture_is_seen_where_colours_are_equal() -> None:
    rng = np.random.default_rng(0)
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::2] = 200
    shuffled = rng.permutation(stripes.reshape(-1, 3)).reshape(stripes.shape)
    first, second = ColourTexture().featurize(np.stack([stripes, shuffled]))
    colours = HUES + 4 * LEVELS + (LEVELS // 2) ** 2
    np.testing.assert_allclose(first[:colours], second[:colours])
    assert np.linalg.norm(first[colours:] - second[colours:]) > 0.5


def test_colours_equal_a_second_implementation(images: UInt8) -> None:
    hue, saturation, value, _ = count_colours(images[0])
    hsv = rgb2hsv(images[0]).reshape(-1, 3)
    chroma = np.ptp(images[0].reshape(-1, 3).astype(int), axis=1)
    expected = np.bincount(np.floor(hsv[:, 0] * HUES + 1e-9).astype(int) % HUES, weights=chroma, minlength=HUES)
    np.testing.assert_allclose(hue, expected, rtol=0.01)
    assert value.tolist() == np.histogram(images[0].max(2), bins=LEVELS, range=(0, 256))[0].tolist()
    assert saturation.sum() == 64 * 64
    expected_mean = hsv[:, 1].mean() * LEVELS
    assert (saturation * (np.arange(LEVELS) + 0.5)).sum() / saturation.sum() == pytest.approx(expected_mean, abs=0.2)


def test_patterns_equal_a_second_implementation(images: UInt8) -> None:
    plane = images[0, :, :, 0]
    padded = np.pad(plane, 1, mode="edge")
    offsets = [(-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1)]
    expected = np.zeros(10, dtype=int)
    for y in range(64):
        for x in range(64):
            bits = [int(padded[y + 1 + dy, x + 1 + dx] >= plane[y, x]) for dy, dx in offsets]
            changes = sum(bits[i] != bits[i - 1] for i in range(8))
            expected[sum(bits) if changes <= 2 else 9] += 1
    assert count_patterns(plane).tolist() == expected.tolist()


def test_slopes_are_classed_by_doublings() -> None:
    step = np.zeros((8, 8), dtype=np.uint8)
    step[:, 4:] = 16
    # The two columns at the step differ by 16 across two pixels: 16^2 + 1 is just above the class that ends at 16.
    assert count_slopes(step).tolist() == [48, 0, 0, 0, 0, 16, 0, 0]
    assert count_slopes(np.full((8, 8), 9, dtype=np.uint8)).tolist() == [64, 0, 0, 0, 0, 0, 0, 0]


def test_halving_averages() -> None:
    plane = np.array([[0, 10, 1], [20, 30, 1], [4, 4, 9]], dtype=np.uint8)
    assert halve(plane).tolist() == [[15, 1], [4, 9]]


@pytest.mark.parametrize("amounts", [(0.6, 0.0), (0.0, 0.5), (0.3, 0.4)])
def test_stains_are_separated(amounts: tuple[float, float]) -> None:
    colours = np.array([HAEMATOXYLIN, EOSIN])
    colours /= np.linalg.norm(colours, axis=1, keepdims=True)
    pixel = np.rint(256 * 10 ** -(np.array(amounts) @ colours) - 1).astype(int)
    table = stain_table()
    got = [sum(table[stain, channel, pixel[channel]] for channel in range(3)) for stain in range(2)]
    assert got == pytest.approx(amounts, abs=0.01)
    assert not table[:, :, 255].any(), "white holds no stain"
