"""What is done to features before the network sees them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slideseek.types import Float32, Float64


@dataclass(frozen=True)
class Inputs:
    """Standardise and clip features: y = clip((x - shift) / scale, -clip, clip).

    shift, scale: float64 (width,). clip: in standard deviations, 0 for none; it keeps one wild feature of one patch
    from dominating a sum of squares.
    """

    shift: Float64
    scale: Float64
    clip: float

    @classmethod
    def plain(cls, width: int, clip: float) -> Inputs:
        """Leave features as they are, but for clipping."""
        return cls(np.zeros(width), np.ones(width), clip)

    def __call__(self, x: Float32, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return the network's input (n, width) for raw features (n, width), computed in `dtype`."""
        out = torch.empty(x.shape, dtype=dtype, device=device)
        self.write(x, out)
        return out

    def write(self, x: Float32, out: Tensor) -> None:
        """Write the network's input to `out` (n, width), computed in its type, for raw features (n, width)."""
        kind = np.float64 if out.dtype == torch.float64 else np.float32
        y = out.numpy() if out.device.type == "cpu" else np.empty(x.shape, kind)
        np.subtract(x, self.shift.astype(kind), out=y)
        np.divide(y, self.scale.astype(kind), out=y)
        if self.clip:
            np.clip(y, -self.clip, self.clip, out=y)
        if out.device.type != "cpu":
            out.copy_(torch.from_numpy(y))
