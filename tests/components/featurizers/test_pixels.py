"""Resizing and normalising patches."""

from __future__ import annotations

import numpy as np
import pytest

from slideseek_components.featurizers.pixels import IMAGENET_MEAN, IMAGENET_STD, Preparation, check_images, resize


def test_resizing_to_the_same_side_touches_nothing() -> None:
    image = np.random.default_rng(0).integers(0, 256, (33, 33, 3), dtype=np.uint8)
    assert resize(image, 33) is image


def test_reducing_does_not_alias() -> None:
    board = np.zeros((256, 256, 3), dtype=np.uint8)
    board[::2, 1::2] = board[1::2, ::2] = 255
    small = resize(board, 64)
    assert small.shape == (64, 64, 3)
    assert np.abs(small[2:-2, 2:-2].astype(int) - 128).max() <= 2


@pytest.mark.parametrize("side", [20, 50, 97])
def test_resizing_keeps_the_centre_in_place(side: int) -> None:
    ramp = np.tile(np.arange(0, 200, 4, dtype=np.uint8)[:, None, None], (1, 50, 3))
    resized = resize(ramp, side)[:, 0, 0].astype(float)
    where = (np.arange(side) + 0.5) * 50 / side - 0.5
    inside = (where > 4) & (where < 45)
    np.testing.assert_allclose(resized[inside], 4 * where[inside], atol=1.0)


def test_preparation_normalises_each_channel() -> None:
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    image[..., 0], image[..., 1], image[..., 2] = 255, 51, 0
    prepared = Preparation.unit(0, IMAGENET_MEAN, IMAGENET_STD)(image)
    assert prepared.shape == (3, 4, 4)
    assert prepared.dtype == np.float32
    expected = [(1 - 0.485) / 0.229, (0.2 - 0.456) / 0.224, -0.406 / 0.225]
    np.testing.assert_allclose(prepared[:, 0, 0], expected, rtol=1e-5)
    assert Preparation(2, (0, 0, 0), (1, 1, 1))(image).shape == (3, 2, 2)


@pytest.mark.parametrize(
    "images", [np.zeros((1, 4, 4, 3)), np.zeros((4, 4, 3), np.uint8), np.zeros((1, 4, 5, 3), np.uint8)]
)
def test_other_arrays_are_refused(images: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"images must be uint8 \(n, side, side, 3\), not"):
        check_images(images)
