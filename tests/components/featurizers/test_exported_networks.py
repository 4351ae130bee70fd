"""Back ends: the features of torch, checked before use, from a network that is exported once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from slideseek.config import ComponentConfig, settings
from slideseek.errors import SlideseekError, UsageError
from slideseek.types import UInt8
from slideseek_components.featurizers import exported_networks, run_options
from slideseek_components.featurizers.efficientnet_lite import EfficientNetLite0, EfficientNetLite2
from slideseek_components.featurizers.exported_networks import CACHE_VARIABLE, TOLERANCE, Source, open_exported
from slideseek_components.featurizers.network_runtimes import run_each
from slideseek_components.featurizers.run_options import choose_backend
from slideseek_components.featurizers.timm_import import import_timm
from slideseek_components.featurizers.timm_model import TimmModel

RUNTIMES = ["onnxruntime", "openvino"]


def installed(runtime: str) -> None:
    for package in (runtime, "onnx", "onnxscript"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.fixture
def images() -> UInt8:
    coarse = np.random.default_rng(7).integers(0, 256, (5, 14, 14, 3), dtype=np.uint8)
    return np.repeat(np.repeat(coarse, 16, axis=1), 16, axis=2)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    return tmp_path / "networks"


class Tiny(nn.Module):
    """Mean colour times a few weights; `scale` stands for a back end that computes something else."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 6, 3, stride=2)
        nn.init.constant_(self.head.weight, 0.1 * scale)
        assert self.head.bias is not None
        nn.init.constant_(self.head.bias, 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps: torch.Tensor = self.head(x)
        return maps.relu().mean((2, 3))


@pytest.fixture
def built() -> list[int]:
    """One entry per time that torch had to build the network."""
    return []


def tiny(built: list[int], scale: float = 1.0, identity: str = "tiny") -> Source:
    def build() -> nn.Module:
        built.append(1)
        return Tiny(scale).eval()

    return Source("tiny", identity, 32, build)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("variant", [EfficientNetLite0, EfficientNetLite2])
def test_features_are_those_of_torch(variant: type[EfficientNetLite0], runtime: str, images: UInt8) -> None:
    installed(runtime)
    expected = variant(device="cpu", backend="torch").featurize(images)
    found = variant(backend=runtime).featurize(images)  # type: ignore[arg-type]
    assert np.abs(expected).max() > 0.5
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_rows_do_not_depend_on_neighbours_or_threads(
    runtime: str, images: UInt8, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(runtime)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = EfficientNetLite0(backend=runtime)  # type: ignore[arg-type]
    expected = np.concatenate([alone.featurize(image[None]) for image in images])
    assert len(np.unique(expected, axis=0)) == len(images)
    for count in ("2", "4"):
        monkeypatch.setenv("OMP_NUM_THREADS", count)
        together = EfficientNetLite0(backend=runtime)  # type: ignore[arg-type]
        np.testing.assert_array_equal(together.featurize(images), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "runtime"), [("resnet10t", "openvino"), ("vit_tiny_patch16_224", "onnxruntime")]
)
def test_timm_networks_run_with_a_back_end(
    architecture: str, runtime: str, cache: Path, tmp_path: Path, images: UInt8
) -> None:
    installed(runtime)
    if find_spec("timm") is None:
        pytest.skip("timm is not installed")
    timm = import_timm()
    torch.manual_seed(3)
    weights = tmp_path / "weights.pth"
    torch.save(timm.create_model(architecture, num_classes=0).state_dict(), weights)
    expected = TimmModel(architecture, weights, device="cpu").featurize(images)
    faster = TimmModel(architecture, weights, backend=runtime)  # type: ignore[arg-type]
    assert faster.fingerprint() == TimmModel(architecture, weights).fingerprint()
    found = faster.featurize(images)
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
    assert [file.suffix for file in sorted(cache.iterdir())] == [".json", ".lock", ".onnx"]


@pytest.mark.slow
def test_bfloat16_is_near_and_has_keys_of_its_own(images: UInt8) -> None:
    installed("openvino")
    exact, fast = EfficientNetLite0(), EfficientNetLite0(backend="openvino", precision="bfloat16")
    config = ComponentConfig("featurizer", "efficientnet-lite0", {})
    kept = [settings(one, config, lambda component, config: {}) for one in (exact, fast)]
    assert "precision" not in kept[0], "archives of before keep their features"
    assert "backend" not in kept[0] | kept[1]
    assert kept[1]["precision"] == "bfloat16"
    expected = exact.featurize(images)
    try:
        found = fast.featurize(images)
    except UsageError as error:
        assert "bfloat16" in error.cause
        pytest.skip("this processor has no bfloat16")
    away = np.abs(found - expected).max() / np.abs(expected).max()
    assert TOLERANCE < away < 0.2


@pytest.mark.slow
def test_a_network_is_exported_once_and_read_back(cache: Path, built: list[int], images: UInt8) -> None:
    installed("onnxruntime")
    pixels = np.full((1, 3, 32, 32), 0.25, dtype=np.float32)
    first = open_exported(tiny(built), "onnxruntime", "float32")(pixels)
    assert len(built) == 1
    np.testing.assert_allclose(first, Tiny()(torch.from_numpy(pixels)).detach().numpy(), rtol=1e-5)
    again = open_exported(tiny(built), "onnxruntime", "float32")(pixels)
    assert len(built) == 1, "neither exported nor compared a second time"
    np.testing.assert_array_equal(first, again)
    open_exported(tiny(built, identity="other weights"), "onnxruntime", "float32")
    assert len(built) == 2
    model = next(file for file in cache.glob("*.onnx"))
    model.write_bytes(model.read_bytes()[:-1])  # damaged: exported again
    for source in (tiny(built), tiny(built, identity="other weights")):
        open_exported(source, "onnxruntime", "float32")
    assert len(built) == 3
    assert not list(cache.glob("*.part*")), "no temporary file is left"


@pytest.mark.slow
def test_a_back_end_that_computes_something_else_is_refused(cache: Path, built: list[int]) -> None:
    installed("onnxruntime")
    open_exported(tiny(built), "onnxruntime", "float32")
    record = next(cache.glob("*.json"))
    known = json.loads(record.read_text())
    assert [name.split()[0] for name in known["compared"]] == ["onnxruntime"]
    assert all(0 <= value <= TOLERANCE for value in known["compared"].values())
    known["compared"] = {}  # as after an update of onnxruntime
    record.write_text(json.dumps(known))
    with pytest.raises(SlideseekError, match="differ from torch's by") as caught:
        open_exported(tiny(built, scale=1.01), "onnxruntime", "float32")
    assert "backend = 'torch'" in caught.value.fix


@pytest.mark.slow
def test_without_a_folder_to_write_to_it_works_all_the_same(
    tmp_path: Path, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("onnxruntime")
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    assert open_exported(tiny(built), "onnxruntime", "float32")(np.zeros((1, 3, 32, 32), np.float32)).shape == (1, 6)


def test_what_cannot_be_exported_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch, built: list[int]) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no such operator\nmore")

    monkeypatch.setattr(torch.onnx, "export", fails)
    with pytest.raises(SlideseekError, match=r"cannot export the network .*no such operator") as caught:
        open_exported(tiny(built), "onnxruntime", "float32")
    assert "backend = 'torch'" in caught.value.fix


@pytest.mark.slow
def test_a_known_network_needs_no_torch(images: UInt8) -> None:
    installed("onnxruntime")
    EfficientNetLite0(backend="onnxruntime").featurize(images[:1])  # it is in the cache now
    program = (
        "import sys, numpy as np\n"
        "from slideseek_components.featurizers.efficientnet_lite import EfficientNetLite0\n"
        "EfficientNetLite0(backend='onnxruntime').featurize(np.zeros((1, 8, 8, 3), np.uint8))\n"
        "print([name for name in ('torch', 'sklearn', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The packages that count as installed; none of them has to be."""
    there: set[str] = set()
    monkeypatch.setattr(run_options, "find_spec", lambda name: object() if name in there else None)
    monkeypatch.setattr(run_options, "_has_gpu", lambda: "gpu" in there)
    yield there


def test_the_fastest_that_is_installed_is_taken(packages: set[str]) -> None:
    assert choose_backend("auto", "cpu") == "torch"
    packages |= {"openvino"}
    assert choose_backend("auto", "cpu") == "torch", "nothing can export the network"
    packages |= {"onnx", "onnxscript"}
    assert choose_backend("auto", "cpu") == "openvino"
    packages |= {"onnxruntime"}
    assert choose_backend("auto", "cpu") == "onnxruntime"
    assert choose_backend("auto", "auto") == "onnxruntime"
    assert choose_backend("auto", "cuda") == "torch"
    packages |= {"gpu"}
    assert choose_backend("auto", "auto") == "torch", "a GPU is faster than either"
    assert choose_backend("auto", "cpu") == "onnxruntime"


@pytest.mark.parametrize(("backend", "extra"), [("onnxruntime", "onnx"), ("openvino", "openvino")])
def test_a_back_end_that_is_not_installed_names_the_extra(packages: set[str], backend: str, extra: str) -> None:
    with pytest.raises(UsageError, match=f"backend '{backend}' needs the package {backend}") as caught:
        EfficientNetLite0(backend=backend).featurize(np.zeros((1, 8, 8, 3), np.uint8))  # type: ignore[arg-type]
    assert f"slideseek[{extra}]" in caught.value.fix


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "tensorrt"}, "backend: one of auto, torch, onnxruntime, openvino, not 'tensorrt'"),
        ({"precision": "int8"}, "precision: one of float32, bfloat16, not 'int8'"),
        ({"precision": "bfloat16"}, "precision: bfloat16 needs backend = 'openvino', not 'auto'"),
        ({"backend": "openvino", "device": "cuda"}, "backend: openvino runs on the CPU, not on device 'cuda'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EfficientNetLite2(**options)  # type: ignore[arg-type]


def test_images_run_in_steps_keep_their_order() -> None:
    images = np.arange(7, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), dtype=np.uint8)
    for step, workers in ((1, 0), (3, 1), (2, 4)):
        rows = run_each(
            lambda pixels: pixels.mean((2, 3)), images, lambda one: one.transpose(2, 0, 1) * 1.0, 3, step, workers
        )
        np.testing.assert_array_equal(rows[:, 0], np.arange(7))
    assert exported_networks.TOLERANCE == 1e-4
