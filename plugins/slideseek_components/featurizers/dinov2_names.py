"""Rename the tensors of a DINOv2 network saved by transformers to those of timm."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from slideseek.errors import SlideseekError

_WHOLE = {
    "embeddings.cls_token": "cls_token",
    "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection.weight": "patch_embed.proj.weight",
    "embeddings.patch_embeddings.projection.bias": "patch_embed.proj.bias",
    "layernorm.weight": "norm.weight",
    "layernorm.bias": "norm.bias",
}
_INSIDE = {
    "attention.output.dense": "attn.proj",
    "layer_scale1.lambda1": "ls1.gamma",
    "layer_scale2.lambda1": "ls2.gamma",
    "mlp.weights_in": "mlp.fc1",
    "mlp.weights_out": "mlp.fc2",
}
_UNUSED = ("embeddings.mask_token",)
"""Only for training."""


def timm_names(state: Mapping[str, Tensor], file: str) -> dict[str, Tensor]:
    """Return the tensors under timm's names, with query, key and value of a block joined into one.

    file: the name of the weights file, for messages. Names that are not of DINOv2 are an error.
    """
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name in _UNUSED:
            continue
        inside = re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)", name)
        if name not in _WHOLE and inside is None:
            raise SlideseekError(
                f"{file}: {name} is not a tensor of a DINOv2 network of transformers",
                "check that the file is the one from the hub, unchanged",
            )
        if inside is None:
            renamed[_WHOLE[name]] = tensor
            continue
        block, rest = f"blocks.{inside[1]}", inside[2]
        attention = re.fullmatch(r"attention\.attention\.(query|key|value)\.(weight|bias)", rest)
        if attention is None:
            for theirs, ours in _INSIDE.items():
                rest = rest.replace(theirs, ours)
            renamed[f"{block}.{rest}"] = tensor
        elif attention[1] == "query":
            stem = name.replace(".query.", ".{}.")
            parts = [state.get(stem.format(part)) for part in ("query", "key", "value")]
            found = [part for part in parts if part is not None]
            if len(found) == 3:  # else it is missing, which loading reports
                renamed[f"{block}.attn.qkv.{attention[2]}"] = torch.cat(found)
    return renamed
