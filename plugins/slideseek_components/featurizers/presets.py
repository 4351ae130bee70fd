"""Published pathology networks by name: what their model cards say, and no weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from slideseek.digests import digest
from slideseek_components.featurizers.hub_files import FOLDER_WEIGHTS
from slideseek_components.featurizers.pixels import IMAGENET_MEAN, IMAGENET_STD, Filter, Rgb

Pool: TypeAlias = Literal["model", "cls", "cls+mean"]
"""How tokens become one vector: as the network does, the class token, or it joined with the mean patch token."""

Slot: TypeAlias = Literal["mlp", "act"]
Layer: TypeAlias = Literal["mlp", "swiglu-packed", "swiglu", "gelu", "silu"]

PresetName: TypeAlias = Literal[
    "",
    "uni",
    "uni2-h",
    "virchow",
    "virchow2",
    "h-optimus-0",
    "h-optimus-1",
    "h0-mini",
    "prov-gigapath",
    "conch-v1.5",
    "phikon-v2",
    "hibou-l",
    "midnight",
]


@dataclass(frozen=True, slots=True)
class Preset:
    """One published network.

    hub: its repository on the hub. architecture, args: the timm network and its arguments. layers: the layers that
    replace those of the architecture. width: length of a feature vector. mean, std: of pixels from 0 to 1. resize,
    side: patches are resized to `resize` pixels, of which the centre of `side` pixels is used. tile, mpp: patches
    the card asks for, pixels and µm per pixel. gated: whether terms must be accepted first. names: whose names the
    tensors of the file have. files: the names the weights may have on the hub. remote: why it cannot be loaded here,
    empty if it can.
    """

    hub: str
    architecture: str
    width: int
    licence: str
    args: Mapping[str, Any] = field(default_factory=dict)
    layers: Mapping[Slot, Layer] = field(default_factory=dict)
    pool: Pool = "cls"
    mean: Rgb = IMAGENET_MEAN
    std: Rgb = IMAGENET_STD
    resample: Filter = "bicubic"
    resize: int = 224
    side: int = 224
    tile: int = 224
    mpp: float = 0.5
    gated: bool = True
    names: Literal["timm", "transformers", "conch"] = "timm"
    files: tuple[str, ...] = FOLDER_WEIGHTS
    remote: str = ""

    def digest(self) -> str:
        """Return 16 hexadecimal digits that change with any fact that features depend on."""
        facts = asdict(self)
        for name in ("licence", "gated", "remote", "tile", "mpp", "width", "files"):
            del facts[name]
        return digest(facts)[:16]


SWIGLU: Mapping[Slot, Layer] = {"mlp": "swiglu-packed", "act": "silu"}
ND = "CC-BY-NC-ND-4.0"
_VIT: Mapping[str, Any] = {"img_size": 224, "init_values": 1e-5, "global_pool": "token"}
_VIRCHOW: Mapping[str, Any] = {**_VIT, "mlp_ratio": 5.3375, "global_pool": "", "dynamic_img_size": True}
_UNI2: Mapping[str, Any] = {
    **_VIT,
    "patch_size": 14,
    "depth": 24,
    "num_heads": 24,
    "embed_dim": 1536,
    "mlp_ratio": 2.66667 * 2,
    "no_embed_class": True,
    "reg_tokens": 8,
    "dynamic_img_size": True,
}
_OPTIMUS = Preset(
    "bioptimus/H-optimus-0",
    "vit_giant_patch14_reg4_dinov2",
    1536,
    "Apache-2.0",
    {**_VIT, "dynamic_img_size": False},
    mean=(0.707223, 0.578729, 0.703617),
    std=(0.211883, 0.230117, 0.177517),
    gated=False,
)
_CODE_ON_HUB = "its network is code from the hub, which is not run here"

PRESETS: Mapping[str, Preset] = {
    "uni": Preset(
        "MahmoodLab/UNI",
        "vit_large_patch16_224",
        1024,
        ND,
        {**_VIT, "dynamic_img_size": True},
        resample="bilinear",
        tile=256,
    ),
    "uni2-h": Preset(
        "MahmoodLab/UNI2-h", "vit_giant_patch14_224", 1536, ND, _UNI2, SWIGLU, resample="bilinear", tile=256
    ),
    "virchow": Preset(
        "paige-ai/Virchow", "vit_huge_patch14_224", 2560, "Apache-2.0", _VIRCHOW, SWIGLU, pool="cls+mean"
    ),
    "virchow2": Preset(
        "paige-ai/Virchow2", "vit_huge_patch14_224", 2560, ND, {**_VIRCHOW, "reg_tokens": 4}, SWIGLU, pool="cls+mean"
    ),
    "h-optimus-0": _OPTIMUS,
    "h-optimus-1": Preset(
        "bioptimus/H-optimus-1",
        _OPTIMUS.architecture,
        1536,
        ND,
        _OPTIMUS.args,
        mean=_OPTIMUS.mean,
        std=_OPTIMUS.std,
    ),
    "h0-mini": Preset(
        "bioptimus/H0-mini",
        "vit_base_patch14_reg4_dinov2",
        1536,
        ND,
        {**_VIT, "mlp_ratio": 2.66667 * 2, "global_pool": "", "dynamic_img_size": True},
        SWIGLU,
        pool="cls+mean",
        mean=_OPTIMUS.mean,
        std=_OPTIMUS.std,
    ),
    "prov-gigapath": Preset(
        "prov-gigapath/prov-gigapath",
        "vit_giant_patch14_dinov2",
        1536,
        "Apache-2.0 with conditions",
        {**_VIT, "patch_size": 16},
        resize=256,
        tile=256,
    ),
    "conch-v1.5": Preset(
        "MahmoodLab/conchv1_5",
        "vit_large_patch16_224",
        768,
        ND,
        {"img_size": 448, "init_values": 1.0},
        pool="model",
        resample="bilinear",
        resize=448,
        side=448,
        tile=512,
        names="conch",
        files=("pytorch_model_vision.bin",),
    ),
    "phikon-v2": Preset(
        "owkin/phikon-v2",
        "vit_large_patch14_dinov2",
        1024,
        "Owkin non-commercial",
        {**_VIT, "patch_size": 16},
        gated=False,
        names="transformers",
    ),
    "hibou-l": Preset(
        "histai/hibou-L",
        "",
        1024,
        "Apache-2.0",
        mean=(0.7068, 0.5755, 0.722),
        std=(0.195, 0.2316, 0.1816),
        remote=_CODE_ON_HUB,
    ),
    "midnight": Preset(
        "kaiko-ai/midnight",
        "vit_giant_patch14_dinov2",
        3072,
        "MIT",
        {**_VIT, "global_pool": ""},
        pool="cls+mean",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        resample="bilinear",
        names="transformers",
    ),
}
"""From the model cards, as of 2026. The weights of none of them were run here: commits are for the user to pin."""
