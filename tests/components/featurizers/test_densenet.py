"""DenseNet-121 and KimiaNet: layer names, published sizes, a second implementation, and files that must be refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from slideseek.errors import SlideseekError, UsageError
from slideseek.interfaces import Described, Featurizer, Fingerprinted, implements
from slideseek.types import UInt8
from slideseek_components.featurizers.densenet import DenseNet121Features, KimiaNet
from slideseek_components.featurizers.densenet_network import DenseNet121
from slideseek_components.featurizers.pixels import IMAGENET_MEAN, IMAGENET_STD

pytestmark = pytest.mark.slow

State = dict[str, Tensor]


@pytest.fixture(scope="module")
def state() -> State:
    """Weights of a fixed seed, with running statistics unlike those of a fresh network."""
    generator = torch.Generator().manual_seed(11)
    filled: State = {}
    for name, tensor in DenseNet121(last_relu=True).state_dict().items():
        if name.endswith("num_batches_tracked"):
            filled[name] = torch.tensor(5)
        elif tensor.ndim == 4:
            spread = (2 / tensor[0].numel()) ** 0.5
            filled[name] = torch.randn(tensor.shape, generator=generator) * spread
        elif name.endswith(("running_var", "weight")):
            filled[name] = 0.5 + torch.rand(tensor.shape, generator=generator)
        else:
            filled[name] = 0.2 * torch.randn(tensor.shape, generator=generator)
    return filled


@pytest.fixture(scope="module")
def images() -> UInt8:
    return np.random.default_rng(2).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)


@pytest.fixture
def weights(tmp_path: Path, state: State) -> Path:
    path = tmp_path / "densenet121.pth"
    head = {"classifier.weight": torch.zeros(1000, 1024), "classifier.bias": torch.zeros(1000)}
    torch.save({**state, **head}, path)
    return path


def functional_forward(state: State, images: UInt8, relu: bool) -> np.ndarray:
    """DenseNet-121 written once more, straight from the paper's table and the state dict."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        scale = state[f"{name}.weight"] / torch.sqrt(var + 1e-5)
        return x * scale[:, None, None] + (state[f"{name}.bias"] - mean * scale)[:, None, None]

    x = torch.from_numpy(images).permute(0, 3, 1, 2).double() / 255
    x = (x - torch.tensor(IMAGENET_MEAN)[:, None, None]) / torch.tensor(IMAGENET_STD)[:, None, None]
    state = {name: tensor.double() for name, tensor in state.items()}
    x = F.conv2d(x, state["features.conv0.weight"], stride=2, padding=3)
    x = F.max_pool2d(norm(x, "features.norm0").clamp(min=0), 3, 2, 1)
    for block, layers in ((1, 6), (2, 12), (3, 24), (4, 16)):
        for layer in range(1, layers + 1):
            prefix = f"features.denseblock{block}.denselayer{layer}"
            new = F.conv2d(norm(x, f"{prefix}.norm1").clamp(min=0), state[f"{prefix}.conv1.weight"])
            new = F.conv2d(norm(new, f"{prefix}.norm2").clamp(min=0), state[f"{prefix}.conv2.weight"], padding=1)
            x = torch.cat([x, new], dim=1)
        if block < 4:
            prefix = f"features.transition{block}"
            x = F.conv2d(norm(x, f"{prefix}.norm").clamp(min=0), state[f"{prefix}.conv.weight"])
            x = F.avg_pool2d(x, 2)
    x = norm(x, "features.norm5")
    return (x.clamp(min=0) if relu else x).mean(dim=(2, 3)).float().numpy()


def test_parameter_count_is_the_published_one() -> None:
    body = sum(parameter.numel() for parameter in DenseNet121(last_relu=True).parameters())
    assert body == 6_953_856
    assert body + 1024 * 1000 + 1000 == 7_978_856


def test_layer_names_are_the_common_ones(state: State) -> None:
    assert len(state) == 120 + 5 * 121  # a weight for each convolution but none for the head, five tensors a norm
    for name in (
        "features.conv0.weight",
        "features.norm0.running_var",
        "features.denseblock1.denselayer1.norm1.weight",
        "features.denseblock4.denselayer16.conv2.weight",
        "features.transition3.conv.weight",
        "features.norm5.bias",
    ):
        assert name in state


@pytest.mark.parametrize(("featurizer", "relu"), [(DenseNet121Features, True), (KimiaNet, False)])
def test_features_equal_a_second_implementation(
    featurizer: type[DenseNet121Features], relu: bool, weights: Path, state: State, images: UInt8
) -> None:
    got = featurizer(weights=weights, device="cpu").featurize(images)
    expected = functional_forward(state, images, relu)
    assert got.shape == (3, 1024)
    np.testing.assert_allclose(got, expected, atol=1e-5 * float(np.abs(expected).max()))
    assert bool((expected < 0).any()) is not relu


def test_rows_do_not_depend_on_batch_or_threads(weights: Path, images: UInt8) -> None:
    before = torch.get_num_threads()
    featurizer = KimiaNet(weights, device="cpu")
    alone = np.concatenate([featurizer.featurize(image[None]) for image in images])
    try:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            featurizer.batch = count
            np.testing.assert_array_equal(featurizer.featurize(images), alone)
    finally:
        torch.set_num_threads(before)


def test_normalisation_and_side_matter(weights: Path, images: UInt8) -> None:
    plain = DenseNet121Features(weights, device="cpu").featurize(images)
    unit = DenseNet121Features(weights, normalise="unit", device="cpu").featurize(images)
    smaller = DenseNet121Features(weights, side=32, device="cpu").featurize(images)
    assert np.abs(plain - unit).max() > 0.01
    assert np.abs(plain - smaller).max() > 0.01


def kimianet_state(state: State) -> State:
    """The layout of KimiaNet's file: a parallel wrapper around (features, pool) and a head of 30 classes."""
    nested = {name.replace("features.", "module.model.0.", 1): tensor for name, tensor in state.items()}
    return {**nested, "module.fc_4.weight": torch.zeros(30, 1024), "module.fc_4.bias": torch.zeros(30)}


def old_state(state: State) -> State:
    """The layout of the oldest ImageNet file: `norm.1` for `norm1`, and no counters."""
    return {
        re.sub(r"(denselayer\d+\.)(norm|conv)([12])\.", r"\1\2.\3.", name): tensor
        for name, tensor in state.items()
        if not name.endswith("num_batches_tracked")
    }


def wrapped_state(state: State) -> dict[str, object]:
    return {"state_dict": state, "epoch": 3}


@pytest.mark.parametrize("layout", [kimianet_state, old_state, wrapped_state])
def test_published_layouts_load(layout, tmp_path: Path, weights: Path, state: State, images: UInt8) -> None:
    path = tmp_path / "other.pth"
    torch.save(layout(state), path)
    expected = KimiaNet(weights, device="cpu").featurize(images)
    np.testing.assert_array_equal(KimiaNet(path, device="cpu").featurize(images), expected)


def test_safetensors_load_and_content_decides_the_fingerprint(
    tmp_path: Path, weights: Path, state: State, images: UInt8
) -> None:
    path = tmp_path / "weights.safetensors"
    save_file(state, path)
    first, second = KimiaNet(weights, device="cpu"), KimiaNet(path, device="cpu")
    np.testing.assert_array_equal(first.featurize(images), second.featurize(images))
    assert first.fingerprint() != second.fingerprint()
    assert first.fingerprint() != DenseNet121Features(weights).fingerprint()
    moved = tmp_path / "moved.pth"
    moved.write_bytes(weights.read_bytes())
    assert KimiaNet(moved).fingerprint() == first.fingerprint()


def test_protocols_and_card(weights: Path) -> None:
    featurizer = KimiaNet(weights)
    assert isinstance(featurizer, Featurizer)
    assert implements(featurizer, Fingerprinted)
    assert implements(featurizer, Described)
    card = featurizer.card()
    assert (card.width, card.patch_size, card.mpp, card.present) == (1024, 1000, 0.5, True)
    assert featurizer.network_ is None
    assert not KimiaNet().card().present
    assert featurizer.featurize(np.zeros((0, 64, 64, 3), np.uint8)).shape == (0, 1024)


@pytest.mark.parametrize("weights", [None, Path(), Path("nowhere.pth")])
def test_absent_weights_say_what_to_download(weights: Path | None) -> None:
    for act in (KimiaNet(weights).fingerprint, lambda: KimiaNet(weights).featurize(np.zeros((1, 32, 32, 3), np.uint8))):
        with pytest.raises(UsageError, match="weights") as caught:
            act()
        assert "KimiaNetPyTorchWeights.pth" in caught.value.fix
        assert "weights = " in caught.value.fix


def refused(path: Path) -> str:
    with pytest.raises(SlideseekError) as caught:
        KimiaNet(path, device="cpu").featurize(np.zeros((1, 32, 32, 3), np.uint8))
    assert caught.value.fix
    return caught.value.cause


def test_wrong_shapes_missing_and_unknown_tensors_are_named(tmp_path: Path, state: State) -> None:
    path = tmp_path / "wrong.pth"
    torch.save({**state, "features.conv0.weight": torch.zeros(64, 1, 7, 7)}, path)
    assert "1 wrong shapes, such as features.conv0.weight is (64, 1, 7, 7), not (64, 3, 7, 7)" in refused(path)
    torch.save({name: tensor for name, tensor in state.items() if "norm5" not in name}, path)
    assert "4 tensors missing, such as features.norm5.bias" in refused(path)
    torch.save({**state, "layer1.0.conv1.weight": torch.zeros(3)}, path)
    assert "1 unknown tensors, such as layer1.0.conv1.weight" in refused(path)
    torch.save({**state, "features.norm5.bias": torch.full((1024,), torch.nan)}, path)
    assert "features.norm5.bias has values that are not finite" in refused(path)


def test_two_networks_in_one_file_are_refused(tmp_path: Path, state: State) -> None:
    path = tmp_path / "two.pth"
    torch.save({**state, **{f"teacher.{name}": tensor for name, tensor in state.items()}}, path)
    assert "more than one DenseNet-121" in refused(path)


class Bomb:
    """What a hostile file would hold: a call that is made while it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_a_file_that_would_run_code_is_refused(tmp_path: Path, state: State) -> None:
    path, target = tmp_path / "bomb.pth", tmp_path / "ran"
    torch.save({"state_dict": Bomb(target)}, path)
    assert "would run code" in refused(path)
    assert not target.exists()


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name in ("text.pth", "text.safetensors"):
        path = tmp_path / name
        path.write_text("not weights at all")
        assert name in refused(path)
    torch.save([1, 2, 3], tmp_path / "list.pth")
    assert "contains no state dict" in refused(tmp_path / "list.pth")
    (tmp_path / "weights.h5").write_bytes(b"\x89HDF")
    assert "unknown weights format '.h5'" in refused(tmp_path / "weights.h5")


def test_a_file_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.pth"
    with path.open("wb") as stream:
        stream.truncate(400_000_001)  # a hole: takes no space
    assert "400,000,001 bytes, at most 400,000,000" in refused(path)


def test_small_patches_are_refused(weights: Path) -> None:
    with pytest.raises(ValueError, match="at least 32 pixels, not 16"):
        KimiaNet(weights, device="cpu").featurize(np.zeros((1, 16, 16, 3), np.uint8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": 16}, "side: 0 or 32 to 4096 pixels, not 16"),
        ({"normalise": "none"}, "normalise: one of imagenet, unit, not 'none'"),
        ({"batch": 0}, "batch: at least 1, not 0"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KimiaNet(**options)  # type: ignore[arg-type]
