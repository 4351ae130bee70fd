"""Presets of published networks: tiny networks of their shapes give what timm gives, to the last bit."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from slideseek.config import ComponentConfig, settings
from slideseek.errors import SlideseekError, UsageError
from slideseek.options import from_table
from slideseek.types import UInt8
from slideseek_components.featurizers.presets import PRESETS, Preset, PresetName
from slideseek_components.featurizers.timm_import import import_timm
from slideseek_components.featurizers.timm_model import TimmModel

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOADABLE = [name for name, preset in PRESETS.items() if not preset.remote]
SIZES: dict[str, Any] = {"depth": 2, "num_heads": 2, "embed_dim": 48}


@pytest.fixture
def timm() -> ModuleType:
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    return import_timm()


@pytest.fixture
def images() -> UInt8:
    return np.random.default_rng(5).integers(0, 256, (3, 80, 80, 3), dtype=np.uint8)


def shrink(monkeypatch: pytest.MonkeyPatch, name: str) -> Preset:
    """Make the network of a preset tiny: only its sizes change."""
    full = PRESETS[name]
    patch = full.args.get("patch_size", 16 if "patch16" in full.architecture else 14)
    side = 4 * patch
    resize = side * full.resize // full.side
    width = 96 if full.pool == "cls+mean" else 48
    tiny = replace(full, args={**full.args, **SIZES, "img_size": side}, side=side, resize=resize, width=width)
    monkeypatch.setitem(PRESETS, name, tiny)
    return tiny


# What the model cards call, written out once more: the layers, registers and pooling that make each shape.
SWIGLU = {"mlp_ratio": 2.66667 * 2, "act_layer": nn.SiLU}
SHAPES: dict[str, tuple[str, dict[str, Any], str]] = {
    "uni": ("vit_large_patch16_224", {"init_values": 1e-5}, "cls"),
    "uni2-h": (
        "vit_giant_patch14_224",
        {**SWIGLU, "init_values": 1e-5, "reg_tokens": 8, "no_embed_class": True},
        "cls",
    ),
    "virchow": ("vit_huge_patch14_224", {**SWIGLU, "mlp_ratio": 5.3375, "init_values": 1e-5, "global_pool": ""}, "1"),
    "virchow2": (
        "vit_huge_patch14_224",
        {**SWIGLU, "mlp_ratio": 5.3375, "init_values": 1e-5, "global_pool": "", "reg_tokens": 4},
        "5",
    ),
    "h-optimus-1": ("vit_giant_patch14_reg4_dinov2", {"init_values": 1e-5}, "cls"),
    "h0-mini": ("vit_base_patch14_reg4_dinov2", {**SWIGLU, "global_pool": ""}, "5"),
    "prov-gigapath": ("vit_giant_patch14_dinov2", {"patch_size": 16}, "cls"),
}


def reference(timm: ModuleType, name: str, tiny: Preset) -> nn.Module:
    """Return a network of the shape made by timm alone, with weights that are not those it starts with."""
    architecture, arguments, _ = SHAPES[name]
    layers = {"mlp_layer": timm.layers.SwiGLUPacked} if "act_layer" in arguments else {}
    torch.manual_seed(7)
    network = timm.create_model(
        architecture, num_classes=0, img_size=tiny.side, **{**SIZES, **arguments, **layers}
    ).eval()
    with torch.no_grad():
        for tensor in network.parameters():
            tensor.normal_(0, 0.2)
    return network  # type: ignore[no-any-return]


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def by_timm(timm: ModuleType, network: Any, tiny: Preset, pool: str, images: UInt8) -> np.ndarray[Any, Any]:
    """Return the features with timm's own transform, one image after another."""
    transform = timm.data.create_transform(
        (3, tiny.side, tiny.side),
        interpolation=tiny.resample,
        mean=tiny.mean,
        std=tiny.std,
        crop_pct=tiny.side / tiny.resize,
    )
    rows: list[Tensor] = []
    with torch.inference_mode(), one_thread():
        for image in images:
            pixels = transform(Image.fromarray(image))[None]
            if pool == "cls":
                rows.append(network(pixels))
                continue
            tokens = network(pixels)
            rows.append(torch.cat([tokens[:, 0], tokens[:, int(pool) :].mean(1)], dim=-1))
    return torch.cat(rows).numpy()


@pytest.mark.parametrize("name", SHAPES)
def test_a_tiny_network_of_the_shape_gives_what_timm_gives(
    name: str, timm: ModuleType, tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = shrink(monkeypatch, name)
    network = reference(timm, name, tiny)
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    featurizer = TimmModel(preset=name, weights=tmp_path, device="cpu")  # type: ignore[arg-type]
    assert featurizer.card().width == tiny.width
    expected = by_timm(timm, network, tiny, SHAPES[name][2], images)
    features = featurizer.featurize(images)
    assert features.shape == (3, tiny.width)
    np.testing.assert_array_equal(features, expected)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("uni", 303),
        ("uni2-h", 681),
        ("virchow", 631),
        ("virchow2", 631),
        ("h-optimus-0", 1135),
        ("h-optimus-1", 1135),
        ("h0-mini", 86),
        ("prov-gigapath", 1135),
        ("phikon-v2", 303),
        ("midnight", 1136),
        ("conch-v1.5", 304),
    ],
)
def test_the_full_network_has_the_published_number_of_parameters(name: str, millions: int, timm: ModuleType) -> None:
    preset = PRESETS[name]
    layers = {"mlp_layer": timm.layers.SwiGLUPacked, "act_layer": nn.SiLU} if preset.layers else {}
    with torch.device("meta"):
        network = timm.create_model(preset.architecture, num_classes=0, **{**preset.args, **layers})
    assert sum(tensor.numel() for tensor in network.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)
    if preset.pool != "model":
        assert network.num_features * (2 if preset.pool == "cls+mean" else 1) == preset.width


def as_transformers(state: dict[str, Tensor], swiglu: bool) -> dict[str, Tensor]:
    """Return tensors as transformers saves a DINOv2 network."""
    names = {
        "cls_token": "embeddings.cls_token",
        "pos_embed": "embeddings.position_embeddings",
        "patch_embed.proj": "embeddings.patch_embeddings.projection",
        "attn.proj": "attention.output.dense",
        "ls1.gamma": "layer_scale1.lambda1",
        "ls2.gamma": "layer_scale2.lambda1",
        "blocks.": "encoder.layer.",
    }
    if swiglu:
        names |= {"mlp.fc1": "mlp.weights_in", "mlp.fc2": "mlp.weights_out"}
    saved = {"embeddings.mask_token": torch.zeros(1, 48)}
    for name, tensor in state.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        name = f"layernorm.{name.removeprefix('norm.')}" if name.startswith("norm.") else name
        if "attn.qkv" in name:
            for part, piece in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                saved[name.replace("attn.qkv", f"attention.attention.{part}")] = piece.contiguous()
        else:
            saved[name] = tensor
    return saved


@pytest.mark.parametrize(("name", "pool"), [("phikon-v2", "cls"), ("midnight", "1")])
def test_files_of_transformers_are_read_without_it(
    name: str, pool: str, timm: ModuleType, tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = shrink(monkeypatch, name)
    torch.manual_seed(2)
    network = timm.create_model(tiny.architecture, num_classes=0, **tiny.args).eval()
    saved = as_transformers(network.state_dict(), name == "midnight")
    save_file(saved, tmp_path / "model.safetensors")
    featurizer = TimmModel(preset=name, weights=tmp_path, device="cpu")  # type: ignore[arg-type]
    expected = by_timm(timm, network, tiny, pool, images)
    np.testing.assert_array_equal(featurizer.featurize(images), expected)
    save_file({**saved, "surprise": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(SlideseekError, match="surprise is not a tensor of a DINOv2 network"):
        TimmModel(preset=name, weights=tmp_path, device="cpu").featurize(images)  # type: ignore[arg-type]
    del saved["encoder.layer.1.attention.attention.key.bias"]
    save_file(saved, tmp_path / "model.safetensors")
    with pytest.raises(SlideseekError, match=r"missing, such as blocks\.1\.attn\.qkv\.bias"):
        TimmModel(preset=name, weights=tmp_path, device="cpu").featurize(images)  # type: ignore[arg-type]


@pytest.mark.parametrize("half", [False, True])
def test_a_tiny_conch_gives_what_timm_and_its_query_give(
    half: bool, timm: ModuleType, tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = replace(shrink(monkeypatch, "conch-v1.5"), width=32)
    monkeypatch.setitem(PRESETS, "conch-v1.5", tiny)
    torch.manual_seed(4)
    trunk = timm.create_model("vit_large_patch16_224", num_classes=0, img_size=64, init_values=1.0, **SIZES).eval()
    shapes: dict[str, tuple[int, ...]] = {
        "query": (1, 32),
        "to_q.weight": (32, 32),
        "to_kv.weight": (64, 48),
        "to_out.weight": (32, 32),
    }
    shapes |= {f"ln_{name}.{part}": (width,) for name, width in (("q", 32), ("k", 48)) for part in ("weight", "bias")}
    pool = {name: torch.randn(shape) for name, shape in shapes.items()}
    last = {"weight": torch.randn(32), "bias": torch.randn(32)}
    if half:  # as published: positions of half the side, enlarged for use
        small = torch.randn(1, 5, 48)
        grid = small[:, 1:].reshape(1, 2, 2, 48).permute(0, 3, 1, 2)
        large = nn.functional.interpolate(grid, scale_factor=(2.05, 2.05), mode="bicubic")
        trunk.pos_embed.data = torch.cat([small[:, :1], large.flatten(2).transpose(1, 2)], dim=1)
    state = {f"trunk.{name}": tensor for name, tensor in trunk.state_dict().items()}
    state |= {f"attn_pool_contrast.{name}": tensor for name, tensor in pool.items()}
    state |= {f"ln_contrast.{name}": tensor for name, tensor in last.items()}
    torch.save(state | ({"trunk.pos_embed": small} if half else {}), tmp_path / "pytorch_model_vision.bin")
    featurizer = TimmModel(preset="conch-v1.5", weights=tmp_path, device="cpu")
    features = featurizer.featurize(images)

    tokens: list[Tensor] = []
    loaded = featurizer.loaded_
    assert loaded is not None
    conch: Any = loaded.network
    with torch.inference_mode(), one_thread():
        for image in images:
            pixels = torch.from_numpy(loaded.prepare(image).copy())[None]
            tokens.append(trunk.forward_features(pixels))
            assert torch.equal(conch.trunk.forward_features(pixels), tokens[-1]), "the transformer is timm's"
        ours = torch.cat([conch.ln_contrast(conch.attn_pool_contrast(one)) for one in tokens])
    np.testing.assert_array_equal(features, ours.numpy())

    def norm(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        centred = values - values.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias

    for row, one in zip(features, tokens, strict=True):
        query = pool["to_q.weight"] @ norm(pool["query"], pool["ln_q.weight"], pool["ln_q.bias"])[0]
        both = norm(one[0], pool["ln_k.weight"], pool["ln_k.bias"]) @ pool["to_kv.weight"].T
        heads = []
        for head in range(8):
            at = slice(4 * head, 4 * head + 4)
            share = torch.softmax(both[:, :32][:, at] @ query[at] / 2, dim=0)
            heads.append(share @ both[:, 32:][:, at])
        expected = norm(pool["to_out.weight"] @ torch.cat(heads), last["weight"], last["bias"])
        np.testing.assert_allclose(row, expected.numpy(), atol=2e-4)


def test_weights_of_another_network_are_refused(
    timm: ModuleType, tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = shrink(monkeypatch, "virchow2")
    shrink(monkeypatch, "virchow")
    save_file(reference(timm, "virchow2", tiny).state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(SlideseekError, match=r"does not fit VisionTransformer .*reg_token"):
        TimmModel(preset="virchow", weights=tmp_path, device="cpu").featurize(images)


def test_options_do_for_any_network_what_presets_do(
    timm: ModuleType, tmp_path: Path, images: UInt8, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights.safetensors"
    torch.manual_seed(1)
    create = partial(timm.create_model, "vit_tiny_patch16_224", num_classes=0)
    network = create(mlp_layer=timm.layers.SwiGLUPacked, act_layer=nn.SiLU).eval()
    save_file(network.state_dict(), path)
    make = partial(TimmModel, "vit_tiny_patch16_224", path, device="cpu")
    with pytest.raises(SlideseekError, match="does not fit"):
        make().featurize(images)
    layers: Any = {"mlp": "swiglu-packed", "act": "silu"}
    both = make(layers=layers, pool="cls+mean").featurize(images)
    cls = make(layers=layers, pool="cls").featurize(images)
    assert both.shape == (3, 384)
    np.testing.assert_array_equal(both[:, :192], cls)
    np.testing.assert_array_equal(cls, make(layers=layers).featurize(images))
    cropped = make(layers=layers, crop=(256, 224)).featurize(images)
    shape = Preset("", "", 192, "", mean=(0.5,) * 3, std=(0.5,) * 3, resize=256)
    np.testing.assert_array_equal(cropped, by_timm(timm, network, shape, "cls", images))
    with pytest.raises(SlideseekError, match=r"takes no images of 100 x 100") as caught:
        make(layers=layers, crop=(100, 100)).featurize(images)
    assert "set crop" in caught.value.fix
    short = make(layers=layers, precision="bfloat16")
    difference = np.abs(short.featurize(images) - cls).max() / np.abs(cls).max()
    assert 0 < difference < 0.1
    assert short.fingerprint() == f"{make(layers=layers).fingerprint()} torch"


def test_a_network_without_class_token_has_none_to_use(timm: ModuleType, tmp_path: Path, images: UInt8) -> None:
    save_file(timm.create_model("resnet10t", num_classes=0).state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(SlideseekError, match="ResNet has no class token"):
        TimmModel("resnet10t", tmp_path / "w.safetensors", device="cpu", pool="cls").featurize(images)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "uni", "pool": "cls+mean"}, "pool: the card of MahmoodLab/UNI says 'cls'"),
        ({"preset": "virchow2", "pool": "cls"}, "pool: the card of paige-ai/Virchow2 says 'cls.mean'"),
        ({"preset": "prov-gigapath", "crop": [224, 224]}, r"crop: the card .* says \(256, 224\)"),
        ({"preset": "uni", "layers": {"act": "silu"}}, "layers: the card"),
        ({"preset": "uni", "model": "resnet10t"}, "model: preset 'uni' sets the architecture"),
        ({"preset": "uni3"}, "preset: must be"),
        ({"layers": {"mlp": "silu"}}, "layers: mlp = 'silu' is unknown"),
        ({"layers": {"norm": "silu"}}, "layers: must be"),
        ({"layers": {"mlp": "os.system"}}, "layers: must be"),
        ({"crop": [224, 256]}, "crop: the side to resize to"),
        ({"precision": "float16", "backend": "openvino"}, "precision: float16 needs backend = 'torch'"),
        ({"precision": "bfloat16", "backend": "auto"}, "precision: bfloat16 needs backend = 'torch' or 'openvino'"),
    ],
)
def test_what_differs_from_the_card_or_is_unknown_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_table(TimmModel, options, "featurizer")


def test_what_differs_from_the_card_may_be_asked_for() -> None:
    same = TimmModel(
        preset="virchow2", pool="cls+mean", layers={"mlp": "swiglu-packed", "act": "silu"}, crop=(224, 224)
    )
    assert same.card().width == 2560
    other = from_table(TimmModel, {"preset": "virchow2", "pool": "cls", "off_card": True}, "featurizer")
    assert other._recipe().pool == "cls"
    assert other.card().width is None


def test_presets_pin_their_weights(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="uni2-h is given without a revision") as caught:
        TimmModel(preset="uni2-h").fingerprint()
    assert "huggingface.co/MahmoodLab/UNI2-h" in caught.value.fix
    pinned = TimmModel(preset="uni2-h", revision=COMMIT).fingerprint()
    assert pinned == f"timm r1 hf-hub:MahmoodLab/UNI2-h@{COMMIT} uni2-h {PRESETS['uni2-h'].digest()}"
    with pytest.raises(UsageError, match=r"has no model\.safetensors / pytorch_model\.bin") as caught:
        TimmModel(preset="uni2-h", weights=tmp_path).fingerprint()
    assert caught.value.fix == "put model.safetensors or pytorch_model.bin from huggingface.co/MahmoodLab/UNI2-h there"


def test_without_a_connection_one_line_says_what_to_put_where(
    timm: ModuleType, images: UInt8, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("slideseek_components.featurizers.hub_files.getproxies", dict)

    def download(*args: object, **options: object) -> str:
        raise AssertionError("the client of the hub tries for 20 seconds, with a line for every attempt")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    with pytest.raises(SlideseekError, match="cannot be fetched from the hub") as caught:
        TimmModel(preset="virchow2", revision=COMMIT, device="cpu").featurize(images)
    for part in (
        f"huggingface.co/paige-ai/Virchow2/tree/{COMMIT}",
        "accept its terms,",
        "model.safetensors",
        "weights",
    ):
        assert part in caught.value.fix
    assert "\n" not in str(caught.value)
    assert "config.json" not in caught.value.fix, "a preset needs none"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("given", ["", "weights=Path('nowhere')", f"revision='{COMMIT}'"])
def test_what_is_missing_is_found_before_torch_is_imported(given: str, tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from slideseek.errors import SlideseekError
from slideseek_components.featurizers.timm_model import TimmModel
try:
    TimmModel(preset="uni2-h", {given}).width
except SlideseekError as error:
    print(error.fix, {{"torch", "timm"}} & set(sys.modules))
"""
    alone = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=alone, check=True)
    assert "model.safetensors" in done.stdout and done.stdout.endswith("set()\n")
    assert done.stderr == ""


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.remote])
def test_what_needs_code_from_the_hub_says_so(name: Any, images: UInt8) -> None:
    featurizer = TimmModel(preset=name, revision=COMMIT)
    with pytest.raises(UsageError, match="is code from the hub, which is not run here"):
        featurizer.featurize(images)
    assert "not loadable" in featurizer.card().weights
    assert not featurizer.card().present


def test_every_name_has_a_card() -> None:
    assert get_args(PresetName) == ("", *PRESETS)
    for name in PRESETS:
        card = TimmModel(preset=name).card()  # type: ignore[arg-type]
        assert card.width and card.licence and card.mpp == 0.5 and PRESETS[name].hub in card.weights
    assert "terms to accept" in TimmModel(preset="uni").card().weights
    assert len({preset.digest() for preset in PRESETS.values()}) == len(PRESETS)


def test_new_options_leave_the_keys_of_older_engines_alone() -> None:
    def kept(**options: Any) -> dict[str, Any]:
        config = ComponentConfig("featurizer", "timm", options)
        return settings(from_table(TimmModel, options, "featurizer"), config, lambda *_: {})

    assert kept(model="resnet10t") == {"use": "timm", "model": "resnet10t", "revision": ""}
    assert kept(preset="virchow2", pool="cls", off_card=True) == {
        "use": "timm",
        "model": "",
        "revision": "",
        "preset": "virchow2",
        "pool": "cls",
    }
    assert kept(layers={"act": "silu"}, crop=[256, 224])["layers"] == {"act": "silu"}
