"""Around a network of timm: how its tokens become one vector, and the precision it computes with."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from slideseek.errors import SlideseekError


class Pooled(nn.Module):
    """The class token of a transformer, or it joined with the mean of the patch tokens.

    network: a timm network; tokens before the patches (class, registers) are counted by its `num_prefix_tokens`.
    """

    def __init__(self, network: Any, pool: Literal["cls", "cls+mean"]) -> None:
        super().__init__()
        prefix = getattr(network, "num_prefix_tokens", 0)
        if not getattr(network, "has_class_token", prefix > 0):
            raise SlideseekError(
                f"pool = {pool!r}: {type(network).__name__} has no class token", "set pool = 'model' for this network"
            )
        self.network, self.pool, self.prefix = network, pool, int(prefix)

    def forward(self, images: Tensor) -> Tensor:
        """Turn (b, 3, side, side) into (b, width) or, with the mean, (b, 2 width)."""
        tokens: Tensor = self.network.forward_features(images)  # (b, prefix + patches, width)
        if self.pool == "cls":
            return tokens[:, 0]
        return torch.cat([tokens[:, 0], tokens[:, self.prefix :].mean(1)], dim=-1)


class Reduced(nn.Module):
    """A network whose products are computed in a shorter number format; its weights stay float32."""

    def __init__(self, network: nn.Module, precision: Literal["bfloat16", "float16"]) -> None:
        super().__init__()
        self.network = network
        self.dtype = torch.bfloat16 if precision == "bfloat16" else torch.float16

    def forward(self, images: Tensor) -> Tensor:
        """Turn (b, 3, side, side) into float32 (b, width)."""
        with torch.autocast(images.device.type, self.dtype):
            output: Tensor = self.network(images)
        return output.float()
