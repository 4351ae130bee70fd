"""Where the patches of a bag lie: the squares of the slide its features were computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.types import Float64, Int32, Patches


@dataclass(frozen=True, slots=True, eq=False)
class PatchSquares:
    """The squares of a bag's patches on their slide, in patch order.

    xy: int32 (n, 2), top-left in level-0 pixels of that slide. side: float64 (n,), side in level-0 pixels.
    slides: the slide of each patch if they come from several (a case), else empty.
    """

    xy: Int32
    side: Float64
    slides: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.xy.dtype != np.int32 or self.xy.ndim != 2 or self.xy.shape[1] != 2:
            raise ValueError(f"PatchSquares.xy must be int32 (n, 2), not {self.xy.dtype} {self.xy.shape}")
        if self.side.shape != (len(self.xy),):
            raise ValueError(f"PatchSquares.side must be ({len(self.xy)},), not {self.side.shape}")
        if self.slides and len(self.slides) != len(self.xy):
            raise ValueError(f"PatchSquares.slides must name {len(self.xy)} slides, not {len(self.slides)}")

    def __len__(self) -> int:
        return len(self.xy)

    @classmethod
    def of(cls, patches: Patches, slide_mpp: float) -> PatchSquares:
        """Return the squares of patches on a slide of `slide_mpp` µm per level-0 pixel."""
        return cls(patches.xy, patches.size * patches.mpp / slide_mpp)

    @classmethod
    def joined(cls, parts: Sequence[tuple[str, PatchSquares]]) -> PatchSquares:
        """Return the squares of several slides, given with their ids, one after the other."""
        return cls(
            np.concatenate([fields.xy for _, fields in parts]),
            np.concatenate([fields.side for _, fields in parts]),
            tuple(slide_id for slide_id, fields in parts for _ in range(len(fields))),
        )
