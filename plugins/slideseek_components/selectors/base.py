"""What tissue selectors share: the grid they choose from and the resolutions at which its cells are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, get_args

import numpy as np

from slideseek.interfaces import ChecksFocus, OffersPatches, PatchSized, Slide, TissueFinder
from slideseek.options import ADDED_LATER
from slideseek.types import Float32, Float64, Int32, Int64, Mask, Patches, UInt8
from slideseek_components.selectors.artefacts import appraise
from slideseek_components.selectors.focus import patch_blur, sharp_patches
from slideseek_components.selectors.tissue import TissueMethod, slide_tissue
from slideseek_components.selectors.tissue_grid import Anchor, TissueGrid, tissue_grid


@dataclass
class TissueSelector(TissueFinder, OffersPatches, PatchSized, ChecksFocus, ABC):
    """Choose among the tissue cells of a regular grid.

    size: side of a patch in pixels. mpp: resolution of the grid, in µm/px.
    also_mpp: further resolutions at which the chosen cells are read: same centres, same number of pixels.
    overlap: share of a patch's side that the next one repeats. min_tissue: least share of tissue in a patch.
    tissue: how tissue is separated from background. exclude_pen: do not count pen marks as tissue. exclude_debris: do
    not count dust, dirt and the black rims of bubbles as tissue; brown chromogens are kept either way. max_blur: leave
    out patches that are more out of focus, in µm (the sigma of a Gaussian); 0 leaves out none.
    anchor: `slide` lays one grid from the slide's corner; `tissue` shifts a grid to each piece of tissue, and completes
    it at the rim with cells below min_tissue until `represent` of the piece lies in a cell, fullest first.
    """

    code_revision: ClassVar[int] = 1

    size: int = 1000
    mpp: float = 0.5
    also_mpp: tuple[float, ...] = ()
    overlap: float = 0.0
    min_tissue: float = 0.7
    tissue: TissueMethod = "hsv-otsu"
    exclude_pen: bool = True
    anchor: Anchor = field(default="slide", metadata=ADDED_LATER)
    represent: float = field(default=0.9, metadata=ADDED_LATER)
    exclude_debris: bool = field(default=True, metadata=ADDED_LATER)
    max_blur: float = field(default=0.0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        self.also_mpp = tuple(self.also_mpp)
        if self.size < 1:
            raise ValueError(f"size: must be at least 1 pixel, not {self.size}")
        if not 0 < self.mpp < np.inf:
            raise ValueError(f"mpp: must be above 0 µm/px, not {self.mpp}")
        for number, other in enumerate(self.also_mpp):
            if not 0 < other < np.inf:
                raise ValueError(f"also_mpp: must be above 0 µm/px, not {other}")
            if other in (self.mpp, *self.also_mpp[:number]):
                raise ValueError(f"also_mpp: must differ from mpp and from each other, not {other} again")
        if not 0 <= self.overlap < 1:
            raise ValueError(f"overlap: must be at least 0 and below 1, not {self.overlap}")
        if not 0 <= self.min_tissue <= 1:
            raise ValueError(f"min_tissue: must be from 0 to 1, not {self.min_tissue}")
        if not 0 <= self.represent <= 1:
            raise ValueError(f"represent: must be from 0 to 1, not {self.represent}")
        if not 0 <= self.max_blur < np.inf:
            raise ValueError(f"max_blur: must be at least 0 µm, not {self.max_blur}")
        if self.anchor not in get_args(Anchor):
            raise ValueError(f"anchor: must be one of {', '.join(get_args(Anchor))}, not {self.anchor!r}")
        if self.tissue not in get_args(TissueMethod):
            raise ValueError(f"tissue: must be one of {', '.join(get_args(TissueMethod))}, not {self.tissue!r}")

    @property
    def patch_um(self) -> float | None:
        """Side of a patch in µm; None with further resolutions, where patches differ in size."""
        return None if self.also_mpp else self.size * self.mpp

    @abstractmethod
    def choose(self, grid: TissueGrid) -> Int64:
        """Return the numbers of the chosen cells, in any order, none twice; `grid` has at least one cell."""

    def grid(self, slide: Slide) -> TissueGrid:
        """Return the tissue cells of `slide` to choose from."""
        return tissue_grid(
            slide,
            self.size,
            self.mpp,
            overlap=self.overlap,
            min_tissue=self.min_tissue,
            tissue=self.tissue,
            exclude_pen=self.exclude_pen,
            exclude_debris=self.exclude_debris,
            anchor=self.anchor,
            represent=self.represent,
        )

    def offered(self, slide: Slide) -> Patches:
        """Return every tissue cell of the grid, at `mpp`."""
        grid = self.grid(slide)
        mpp = np.full(len(grid), self.mpp)
        return Patches(grid.slide_id, grid.xy, self.size, mpp, grid.tissue_um2, grid.left_out_um2)

    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        """Return bool (h, w), true where `thumbnail`, RGB uint8 (h, w, 3) of `slide`, shows tissue.

        Gaps up to the usual size count as tissue, so the outline is the same for patches of any size; the grid fills
        fewer of them if its cells are small.
        """
        return slide_tissue(slide, thumbnail, self.tissue, self.exclude_pen, self.exclude_debris)

    def select(self, slide: Slide) -> Patches:
        """Return the chosen patches: at `mpp` by row and column of the grid, then at each of `also_mpp` likewise."""
        grid = self.grid(slide)
        chosen = np.sort(self.choose(grid)) if len(grid) else np.empty(0, dtype=np.int64)
        corners = [grid.xy[chosen], *(_same_centres(grid, chosen, mpp) for mpp in self.also_mpp)]
        mpps = [np.full(len(xy), mpp) for xy, mpp in zip(corners, (self.mpp, *self.also_mpp))]
        xy, mpp = np.concatenate(corners), np.concatenate(mpps)
        patches = Patches(grid.slide_id, xy, self.size, mpp, grid.tissue_um2, grid.left_out_um2)
        mpp_seen = slide.mpp * slide.dimensions[0] / grid.thumbnail.shape[1]
        seen = appraise(grid.thumbnail, mpp_seen, grid.masks)
        return replace(patches, measured=seen.measured(), scores=seen.scores(patches, slide.mpp, slide.dimensions))

    def blur_um(self, images: UInt8, mpp: Float64, slide_mpp: float) -> Float32:
        """Return how far images (n, s, s, 3) are out of focus, float32 (n,): the sigma of a Gaussian in µm."""
        return patch_blur(images, mpp, slide_mpp)

    def in_focus(self, blur_um: Float32, mpp: Float64, slide_mpp: float) -> tuple[Mask, Sequence[str]]:
        """Return which patches are not blurred by more than `max_blur`, bool (n,), and notes."""
        return sharp_patches(blur_um, mpp, slide_mpp, self.max_blur)


@dataclass
class SeededSelector(TissueSelector):
    """A selector that draws at random; the draw depends only on `seed`, not on earlier selections."""

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed: must be from 0 to 4294967295, not {self.seed}")


def _same_centres(grid: TissueGrid, chosen: Int64, mpp: float) -> Int32:
    """Return the corners, int32 (m, 2), of the chosen cells read at `mpp`: around the same centres, inside the slide.

    A field larger than the slide starts at the border. Cells that a border moves to the same field count once.
    """
    extent = grid.extent * mpp / grid.mpp
    dimensions = np.asarray(grid.dimensions)
    begin = grid.xy[chosen]
    centres = (begin + np.minimum(begin + grid.extent, dimensions)) / 2
    corners = np.clip(centres - extent / 2, 0.0, np.maximum(dimensions - extent, 0.0))
    xy = np.floor(corners + 1e-6).astype(np.int32)
    _, first = np.unique(xy, axis=0, return_index=True)
    return np.ascontiguousarray(xy[np.sort(first)])
