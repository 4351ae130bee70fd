"""ONNX models: shapes read from the file, pooling, and models that must be refused."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from slideseek.errors import SlideseekError, UsageError
from slideseek.interfaces import Described, Featurizer, Fingerprinted, implements
from slideseek.types import UInt8
from slideseek_components.featurizers import extras
from slideseek_components.featurizers.onnx_external import has_external_data
from slideseek_components.featurizers.onnx_model import OnnxModel

KERNEL = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)
UNIT = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def build(
    input_shape: Sequence[int | str] = ("n", 3, 16, 16),
    steps: Sequence[str] = (),
    dtype: int = TensorProto.FLOAT,
    rank: int = 4,
) -> onnx.ModelProto:
    """A convolution, then `steps`: `tokens` makes (n, positions, 5), `pool` makes (n, 5)."""
    kernel = KERNEL.astype(helper.tensor_dtype_to_np_dtype(dtype))
    nodes, last, initializers = [], "pixels", [numpy_helper.from_array(kernel, "kernel")]
    if input_shape[3] == 3:
        nodes.append(helper.make_node("Transpose", [last], ["turned"], perm=[0, 3, 1, 2]))
        last = "turned"
    nodes.append(helper.make_node("Conv", [last, "kernel"], ["maps"], pads=[1, 1, 1, 1]))
    last = "maps"
    if "tokens" in steps:
        initializers.append(numpy_helper.from_array(np.array([0, 5, -1], dtype=np.int64), "shape"))
        nodes.append(helper.make_node("Reshape", ["maps", "shape"], ["flat"]))
        nodes.append(helper.make_node("Transpose", ["flat"], ["tokens"], perm=[0, 2, 1]))
        last, rank = "tokens", 3
    if "pool" in steps:
        nodes.append(helper.make_node("ReduceMean", ["maps"], ["pooled"], axes=[2, 3], keepdims=0))
        last, rank = "pooled", 2
    outputs = [helper.make_tensor_value_info(last, dtype, [None] * rank)]
    if last != "maps":
        outputs.append(helper.make_tensor_value_info("maps", dtype, [None] * 4))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("pixels", dtype, list(input_shape))], outputs, initializers
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    onnx.save_model(model, path)
    return path


@pytest.fixture
def images() -> UInt8:
    return np.random.default_rng(4).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)


def expected_maps(images: UInt8) -> np.ndarray:
    """The convolution of the model written out, (n, 5, 16, 16), on pixels from 0 to 1."""
    pixels = np.pad(images.astype(np.float64) / 255, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (3, 3), axis=(1, 2))
    return np.asarray(np.einsum("nhwcyx,ocyx->nohw", windows, KERNEL))


@pytest.mark.parametrize(
    "model",
    [
        build(),
        build(("n", 16, 16, 3)),
        build(("n", 3, "h", "w")),
        build((1, 3, 16, 16)),
        build(steps=["tokens"]),
        build(steps=["pool"]),
    ],
)
def test_every_layout_pools_to_the_same_features(model: onnx.ModelProto, tmp_path: Path, images: UInt8) -> None:
    featurizer = OnnxModel(saved(tmp_path, model), device="cpu", **UNIT)  # type: ignore[arg-type]
    assert featurizer.width == 5
    got = featurizer.featurize(images)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected_maps(images).mean(axis=(2, 3)), atol=1e-5)


def test_pool_output_and_normalisation(tmp_path: Path, images: UInt8) -> None:
    path = saved(tmp_path, build(steps=["tokens"]))
    first = OnnxModel(path, pool="first", device="cpu", **UNIT).featurize(images)  # type: ignore[arg-type]
    np.testing.assert_allclose(first, expected_maps(images)[:, :, 0, 0], atol=1e-5)
    other = OnnxModel(path, output="maps", device="cpu", **UNIT).featurize(images)  # type: ignore[arg-type]
    np.testing.assert_allclose(other, expected_maps(images).mean(axis=(2, 3)), atol=1e-5)
    assert np.abs(OnnxModel(path, device="cpu").featurize(images) - other).max() > 0.01
    with pytest.raises(UsageError, match="no output 'logits'") as caught:
        OnnxModel(path, output="logits", device="cpu").featurize(images)
    assert "tokens, maps" in caught.value.fix


def test_half_precision_models_run(tmp_path: Path, images: UInt8) -> None:
    featurizer = OnnxModel(saved(tmp_path, build(dtype=TensorProto.FLOAT16)), device="cpu", **UNIT)  # type: ignore[arg-type]
    np.testing.assert_allclose(featurizer.featurize(images), expected_maps(images).mean(axis=(2, 3)), atol=2e-2)


def test_a_row_depends_on_its_image_alone(tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch) -> None:
    featurizer = OnnxModel(saved(tmp_path, build()), device="cpu")
    alone = np.concatenate([featurizer.featurize(image[None]) for image in images])
    for count in ("1", "2", "4"):
        monkeypatch.setenv("OMP_NUM_THREADS", count)
        np.testing.assert_array_equal(featurizer.featurize(images), alone)


def test_patches_take_the_side_of_the_model(tmp_path: Path, images: UInt8) -> None:
    doubled = np.repeat(np.repeat(images, 2, axis=1), 2, axis=2)
    fixed = OnnxModel(saved(tmp_path, build()), device="cpu")
    assert fixed.featurize(doubled).shape == (5, 5)
    with pytest.raises(UsageError, match="takes images of 16 pixels, not side = 32"):
        OnnxModel(saved(tmp_path, build()), side=32, device="cpu").featurize(images)
    free = OnnxModel(saved(tmp_path, build(("n", 3, "h", "w"))), device="cpu", **UNIT)  # type: ignore[arg-type]
    same = OnnxModel(saved(tmp_path, build(("n", 3, "h", "w"))), side=16, device="cpu", **UNIT)  # type: ignore[arg-type]
    assert np.abs(free.featurize(doubled) - same.featurize(doubled)).max() > 1e-3


def test_protocols_card_and_fingerprint(tmp_path: Path) -> None:
    path = saved(tmp_path, build())
    featurizer = OnnxModel(path)
    card = featurizer.card()
    assert (card.width, card.present) == (None, True)
    assert featurizer.session_ is None
    assert not OnnxModel().card().present
    before = featurizer.fingerprint()
    assert isinstance(featurizer, Featurizer)
    assert implements(featurizer, Fingerprinted)
    assert implements(featurizer, Described)
    saved(tmp_path, build(steps=["pool"]))
    assert OnnxModel(path).fingerprint() != before
    assert featurizer.featurize(np.zeros((0, 16, 16, 3), np.uint8)).shape == (0, 5)


def refused(path: Path) -> str:
    with pytest.raises(SlideseekError) as caught:
        OnnxModel(path, device="cpu").featurize(np.zeros((1, 16, 16, 3), np.uint8))
    assert caught.value.fix
    return caught.value.cause


def test_external_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "outside.onnx"
    onnx.save_model(build(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    monkeypatch.chdir(tmp_path)  # where the runtime itself would find, and take, the other file
    assert "stores its weights in other files" in refused(path)


def test_external_data_is_found_in_nested_graphs() -> None:
    tensor = helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])
    value = helper.make_tensor_value_info("o", TensorProto.FLOAT, [1])

    def nested(constant: TensorProto) -> bytes:
        body = helper.make_graph([helper.make_node("Constant", [], ["o"], value=constant)], "b", [], [value])
        branch = helper.make_node("If", ["c"], ["o"], then_branch=body, else_branch=body)
        flag = helper.make_tensor_value_info("c", TensorProto.BOOL, [1])
        return bytes(helper.make_model(helper.make_graph([branch], "g", [flag], [value])).SerializeToString())

    assert not has_external_data(nested(tensor))
    outside = TensorProto()
    outside.CopyFrom(tensor)
    outside.data_location = TensorProto.EXTERNAL
    assert has_external_data(nested(outside))


def test_other_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.onnx"
    text.write_text("not a model, just words")
    assert "not an ONNX model" in refused(text)
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(build().SerializeToString()[:-40])
    assert "cut.onnx" in refused(cut)
    unknown = build()
    unknown.graph.node[0].op_type = "Nonsense"
    assert "onnxruntime cannot load the model" in refused(saved(tmp_path, unknown))


def test_models_for_other_inputs_are_refused(tmp_path: Path) -> None:
    assert "takes exactly 4 images at once" in refused(saved(tmp_path, build((4, 3, 16, 16))))
    assert "not square" in refused(saved(tmp_path, build(("n", 3, 16, 8))))
    two = build()
    two.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["n"]))
    assert "takes 2 inputs" in refused(saved(tmp_path, two))
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 10])
    flat = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [value],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
    )
    model = helper.make_model(flat, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    assert "its input is tensor(float) ['n', 10]" in refused(saved(tmp_path, model))


def test_absent_weights_and_packages_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="needs a weights file"):
        OnnxModel().fingerprint()
    with pytest.raises(UsageError, match="does not exist"):
        OnnxModel(tmp_path / "none.onnx").featurize(np.zeros((1, 16, 16, 3), np.uint8))

    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(UsageError, match="needs the package onnxruntime") as caught:
        OnnxModel(saved(tmp_path, build())).featurize(np.zeros((1, 16, 16, 3), np.uint8))
    assert "slideseek[onnx]" in caught.value.fix


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    available = extras.require_module("onnxruntime", "onnx").get_available_providers()
    if "CUDAExecutionProvider" in available:
        pytest.skip("this onnxruntime has CUDA")
    with pytest.raises(UsageError, match="device 'cuda' is not available"):
        OnnxModel(saved(tmp_path, build()), device="cuda").featurize(np.zeros((1, 16, 16, 3), np.uint8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": 5}, "side: 0 or 8 to 4096 pixels, not 5"),
        ({"std": (1.0, 0.0, 1.0)}, "std: three numbers above 0"),
        ({"pool": "max"}, "pool: one of mean, first, not 'max'"),
        ({"device": "gpu"}, "device: one of"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OnnxModel(**options)  # type: ignore[arg-type]
