"""The vision network of CONCH v1.5: a transformer of timm whose tokens one learnt query attends to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONCH_PATCH = 16
"""Side of one token in pixels."""

POSITIONS = "trunk.pos_embed"


class QueryPool(nn.Module):
    """Attention of one learnt query to all tokens. The names of its parts are those in the published file."""

    def __init__(self, tokens: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Parameter(torch.empty(1, width))
        self.ln_q, self.ln_k = nn.LayerNorm(width), nn.LayerNorm(tokens)
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_kv = nn.Linear(tokens, 2 * width, bias=False)
        self.to_out = nn.Linear(width, width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Turn (b, n, tokens) into (b, width)."""
        b = tokens.shape[0]
        query = self.to_q(self.ln_q(self.query)).expand(b, 1, -1)
        parts = (query, *self.to_kv(self.ln_k(tokens)).chunk(2, dim=-1))
        q, k, v = (part.reshape(b, part.shape[1], self.heads, -1).transpose(1, 2) for part in parts)
        found = F.scaled_dot_product_attention(q, k, v)  # (b, heads, 1, width / heads)
        pooled: Tensor = self.to_out(found.transpose(1, 2).reshape(b, -1))
        return pooled


class Conch(nn.Module):
    """A timm transformer `trunk`, the query and a last normalisation."""

    def __init__(self, trunk: Any, width: int, heads: int = 8) -> None:
        super().__init__()
        self.trunk = trunk
        self.attn_pool_contrast = QueryPool(trunk.num_features, width, heads)
        self.ln_contrast = nn.LayerNorm(width)

    def forward(self, images: Tensor) -> Tensor:
        """Turn (b, 3, side, side) into (b, width)."""
        features: Tensor = self.ln_contrast(self.attn_pool_contrast(self.trunk.forward_features(images)))
        return features


def with_positions(state: Mapping[str, Tensor], grid: int) -> dict[str, Tensor]:
    """Return the tensors with the positions enlarged from half that grid, as the published network does in each pass.

    Positions that already have the whole grid are used as they are; loading refuses those of any other.
    """
    positions = state.get(POSITIONS)
    small = grid // 2
    if positions is None or positions.ndim != 3 or positions.shape[1] != small * small + 1:
        return dict(state)
    patches = positions[:, 1:].reshape(1, small, small, -1).permute(0, 3, 1, 2)
    scale = (grid + 0.1) / small  # DINO's guard against rounding, which shifts the samples a little
    large = F.interpolate(patches, scale_factor=(scale, scale), mode="bicubic").permute(0, 2, 3, 1)
    return {**state, POSITIONS: torch.cat([positions[:, :1], large.reshape(1, grid * grid, -1)], dim=1)}
