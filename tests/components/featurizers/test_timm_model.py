"""Networks of timm: local files and folders, hub models that cannot be had, and weights that do not fit."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from slideseek.errors import SlideseekError, UsageError
from slideseek.interfaces import Described, Featurizer, Fingerprinted, implements
from slideseek.types import UInt8
from slideseek_components.featurizers.timm_import import import_timm
from slideseek_components.featurizers.timm_model import TimmModel

pytestmark = pytest.mark.slow

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONVOLUTIONAL, TRANSFORMER = "resnet10t", "vit_tiny_patch16_224"


@pytest.fixture
def timm() -> ModuleType:
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    return import_timm()


@pytest.fixture
def images() -> UInt8:
    return np.random.default_rng(5).integers(0, 256, (3, 100, 100, 3), dtype=np.uint8)


def save_network(timm: ModuleType, architecture: str, path: Path, classes: int = 10) -> torch.nn.Module:
    """Save a network of a fixed seed with a head of `classes` classes, and return it."""
    torch.manual_seed(3)
    network: torch.nn.Module = timm.create_model(architecture, num_classes=classes).eval()
    state = network.state_dict()
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    return network


def save_folder(timm: ModuleType, folder: Path, architecture: str = TRANSFORMER, **settings: object) -> torch.nn.Module:
    """Save what a download of a hub model gives: config.json and model.safetensors."""
    network = save_network(timm, architecture, folder / "model.safetensors", classes=0)
    config = {
        "architecture": architecture,
        "num_classes": 0,
        "pretrained_cfg": {
            "input_size": [3, 224, 224],
            "interpolation": "bilinear",
            "mean": [0.5, 0.5, 0.5],
            "std": [0.5, 0.5, 0.5],
            "num_classes": 0,
            "classifier": "head",
            **settings,
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    return network


@pytest.mark.parametrize(("architecture", "width"), [(CONVOLUTIONAL, 512), (TRANSFORMER, 192)])
@pytest.mark.parametrize(("classes", "suffix"), [(0, ".pth"), (10, ".safetensors")])
def test_a_file_gives_the_pooled_features(
    architecture: str, width: int, classes: int, suffix: str, timm: ModuleType, tmp_path: Path, images: UInt8
) -> None:
    path = tmp_path / f"weights{suffix}"
    network: Any = save_network(timm, architecture, path, classes)
    featurizer = TimmModel(architecture, path, device="cpu")
    settings = timm.data.resolve_model_data_config(network)
    side = settings["input_size"][1]
    exact = np.random.default_rng(0).integers(0, 256, (2, side, side, 3), dtype=np.uint8)
    pixels = torch.from_numpy(exact).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(settings[name])[:, None, None] for name in ("mean", "std"))
    with torch.inference_mode():
        expected = network.forward_head(network.forward_features((pixels - mean) / std), pre_logits=True).numpy()
    assert featurizer.width == width
    np.testing.assert_allclose(featurizer.featurize(exact), expected, atol=1e-4)
    assert featurizer.featurize(images).shape == (3, width), "patches of another side are resized"
    assert featurizer.featurize(images[:0]).shape == (0, width)


def test_rows_do_not_depend_on_batch_or_threads(timm: ModuleType, tmp_path: Path, images: UInt8) -> None:
    path = tmp_path / "weights.pth"
    save_network(timm, TRANSFORMER, path)
    featurizer = TimmModel(TRANSFORMER, path, device="cpu")
    alone = np.concatenate([featurizer.featurize(image[None]) for image in images])
    before = torch.get_num_threads()
    try:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            featurizer.batch = count
            np.testing.assert_array_equal(featurizer.featurize(images), alone)
    finally:
        torch.set_num_threads(before)


def test_a_folder_brings_its_own_configuration(timm: ModuleType, tmp_path: Path, images: UInt8) -> None:
    save_folder(timm, tmp_path)
    featurizer = TimmModel(weights=tmp_path, device="cpu")
    features = featurizer.featurize(images)
    loaded = featurizer.loaded_
    assert loaded is not None
    assert loaded.prepare.resample == "bilinear"
    assert loaded.prepare.mean == pytest.approx((127.5, 127.5, 127.5))
    before = TimmModel(weights=tmp_path).fingerprint()
    save_folder(timm, tmp_path, mean=[0.4, 0.4, 0.4])
    assert TimmModel(weights=tmp_path).fingerprint() != before
    assert np.abs(TimmModel(weights=tmp_path, device="cpu").featurize(images) - features).max() > 1e-4


def test_a_hub_model_is_the_folder_of_its_commit(
    timm: ModuleType, tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_folder(timm, tmp_path)
    asked: list[tuple[str, str, str]] = []

    def download(repository: str, file: str, revision: str) -> str:
        asked.append((repository, file, revision))
        return str(tmp_path / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr("slideseek_components.featurizers.hub_files.reach", lambda endpoint: None)
    featurizer = TimmModel("hf-hub:owner/name", revision=COMMIT, device="cpu")
    assert featurizer.fingerprint() == f"timm r1 hf-hub:owner/name@{COMMIT}"
    assert asked == [], "the commit names the weights: nothing is fetched for a fingerprint"
    expected = TimmModel(weights=tmp_path, device="cpu").featurize(images)
    np.testing.assert_array_equal(featurizer.featurize(images), expected)
    assert asked == [("owner/name", "config.json", COMMIT), ("owner/name", "model.safetensors", COMMIT)]


def test_a_hub_model_that_cannot_be_had_says_what_to_download(
    timm: ModuleType, tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    featurizer = TimmModel("hf-hub:owner/name", revision=COMMIT, device="cpu")
    assert not featurizer.card().present
    with pytest.raises(SlideseekError, match="cannot be fetched from the hub") as caught:
        featurizer.featurize(images)
    for part in ("huggingface.co/owner/name", "accept its terms", "config.json", "model.safetensors", "set weights"):
        assert part in caught.value.fix


def test_protocols_and_card(timm: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    save_network(timm, CONVOLUTIONAL, path)
    featurizer = TimmModel(CONVOLUTIONAL, path, device="cpu")
    assert featurizer.card().width is None
    assert featurizer.card().present
    assert featurizer.loaded_ is None
    assert isinstance(featurizer, Featurizer)
    assert implements(featurizer, Fingerprinted)
    assert implements(featurizer, Described)
    assert featurizer.card().width == 512
    assert not TimmModel(CONVOLUTIONAL).card().present


def test_weights_that_do_not_fit_are_refused(timm: ModuleType, tmp_path: Path, images: UInt8) -> None:
    path = tmp_path / "weights.pth"
    network = save_network(timm, CONVOLUTIONAL, path)

    def cause(model: str) -> str:
        with pytest.raises(SlideseekError) as caught:
            TimmModel(model, path, device="cpu").featurize(images)
        assert caught.value.fix
        return caught.value.cause

    assert "does not fit resnet18" in cause("resnet18")
    assert "does not fit no_such_network" in cause("no_such_network")
    state = network.state_dict()
    torch.save({name: tensor for name, tensor in state.items() if name != "bn1.weight" and "fc" not in name}, path)
    assert "bn1.weight" in cause(CONVOLUTIONAL), "a missing tensor must not be left at random"
    state["conv1.0.weight"] = torch.zeros(1)
    torch.save(state, path)
    assert "conv1.0.weight" in cause(CONVOLUTIONAL)


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_a_file_that_would_run_code_is_refused(timm: ModuleType, tmp_path: Path, images: UInt8) -> None:
    for path, model in ((tmp_path / "bomb.pth", CONVOLUTIONAL), (tmp_path / "pytorch_model.bin", "")):
        torch.save({"state_dict": Bomb(tmp_path / "ran")}, path)
        (tmp_path / "config.json").write_text(json.dumps({"architecture": CONVOLUTIONAL, "pretrained_cfg": {}}))
        with pytest.raises(SlideseekError, match="would run code"):
            TimmModel(model, path if model else tmp_path, device="cpu").featurize(images)
    assert not (tmp_path / "ran").exists()


def test_settings_that_cannot_be_honoured_are_refused(timm: ModuleType, tmp_path: Path, images: UInt8) -> None:
    for settings, message in (
        ({"interpolation": "random"}, "uses interpolation 'random'"),
        ({"input_size": [3, 224, 192]}, "takes images of"),
    ):
        save_folder(timm, tmp_path, CONVOLUTIONAL, classifier="fc", **settings)
        with pytest.raises(SlideseekError, match=message):
            TimmModel(weights=tmp_path, device="cpu").featurize(images)


def test_timm_is_imported_whatever_the_state_of_torchvision(timm: ModuleType) -> None:
    plain = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, check=False)
    program = (
        "from slideseek_components.featurizers import timm_import\n"
        "timm = timm_import.import_timm()\n"
        "print(len(timm_import._DEFINED), timm.create_model('resnet10t', num_classes=0).num_features)"
    )
    mended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    declared = 0 if plain.returncode == 0 else 1
    assert mended.stdout.split() == [str(declared), "512"], mended.stderr


def test_other_import_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise RuntimeError("something else")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(RuntimeError, match="something else"):
        import_timm()


def test_an_absent_package_names_the_extra(tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    path = tmp_path / "weights.pth"
    torch.save({"a": torch.zeros(1)}, path)
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(UsageError, match="needs the package timm") as caught:
        TimmModel(CONVOLUTIONAL, path, device="cpu").featurize(images)
    assert "slideseek[timm]" in caught.value.fix


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no weights for model ''"),
        ({"model": "resnet18"}, "no weights for model 'resnet18'"),
        ({"model": "resnet18", "weights": Path("nowhere.pth")}, "nowhere.pth does not exist"),
        ({"model": "hf-hub:owner/name"}, "without a revision"),
        ({"weights": Path(__file__)}, "needs the name of its architecture"),
        ({"weights": Path(__file__).parent}, "has no config.json"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_loaded(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        TimmModel(**options).fingerprint()  # type: ignore[arg-type]
    assert caught.value.fix


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"revision": "main"}, "revision: a commit of 40 hexadecimal digits, not 'main'"),
        ({"model": "hf-hub:name"}, "model: 'hf-hub:owner/name', not 'hf-hub:name'"),
        ({"batch": 0}, "batch: at least 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TimmModel(**options)  # type: ignore[arg-type]
