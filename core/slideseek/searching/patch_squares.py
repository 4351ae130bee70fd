"""Where the patches of a bag lie: the squares of the slide its features were computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from slideseek.archive.features import sound_dataset
from slideseek.errors import DamagedError
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


def read_squares(path: Path) -> PatchSquares:
    """Read the squares from a feature file of the archive; raise `DamagedError` if they are missing."""
    try:
        with h5py.File(path, "r") as file:
            coords, mpp = sound_dataset(file, "coords"), sound_dataset(file, "mpp")
            size, slide_mpp = int(coords.attrs["patch_size"]), float(coords.attrs["level0_mpp"])
            xy = np.asarray(coords[:], dtype=np.int32)
            return PatchSquares.of(Patches("", xy, size, np.asarray(mpp[:], dtype=np.float64)), slide_mpp)
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        why = " ".join(str(error).split())
        raise DamagedError(f"{path} does not state its patches ({why})", "run 'slideseek build --verify'") from error
