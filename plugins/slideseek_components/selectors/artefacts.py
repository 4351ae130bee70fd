"""Stain, pen, folds and debris on a thumbnail: facts about a slide, and shares of each of its patches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image
from scipy import ndimage

from slideseek.types import Float32, Float64, Mask, Patches, UInt8
from slideseek_components.selectors.image_masks import ImageMasks
from slideseek_components.selectors.pixel_colours import grey, smoothed
from slideseek_components.selectors.stain_kind import is_dark, stain_kind

MAX_SIDE = 512
"""Most pixels per side that are looked at: artefacts are large, and time grows with the pixels."""

ARTEFACTS = ("pen", "debris", "folds")

CHROMOGENS = ("ihc", "ihc-red")
"""Stains on which folds are not looked for: positive cells are as dense."""

_DEBRIS_CORE = 3
"""Half the least width of debris in pixels: the grey rim that scanners give to tissue is thinner."""

FOLD = 1.9
"""Optical density of a fold, relative to the median of the tissue: two layers absorb twice as much."""

_FOLD_UM = 40.0
"""Least width of a fold: a row of dense nuclei is thinner. On a thumbnail of coarse pixels it is three of them."""

_MOSTLY = 0.5
"""Share of debris on the stained part of a slide above which it is the stain itself, such as silver."""


@dataclass(frozen=True, slots=True, eq=False)
class Appraisal:
    """What a thumbnail shows apart from tissue.

    stain: as `stain_kind` names it. masks: by artefact, bool (h, w) on the thumbnail. tissue: bool (h, w).
    """

    stain: str
    masks: Mapping[str, Mask]
    tissue: Mask

    def measured(self) -> dict[str, str]:
        """Return the stain, pen as a share of the slide, folds and debris relative to its tissue."""
        tissue = max(1, int(np.count_nonzero(self.tissue)))
        shares = {
            name: np.count_nonzero(mask) / (mask.size if name == "pen" else tissue) for name, mask in self.masks.items()
        }
        found = {name: f"{min(1.0, share):.4f}" for name, share in shares.items()}
        return {"stain": self.stain, **found} if self.stain else found

    def scores(self, patches: Patches, slide_mpp: float, dimensions: tuple[int, int]) -> dict[str, Float32]:
        """Return the share of every patch that each artefact covers, float32 (n,) by name."""
        side, corner = (patches.size * patches.mpp / slide_mpp)[:, None], patches.xy.astype(np.float64)
        return {name: _shares(mask, corner, corner + side, dimensions) for name, mask in self.masks.items()}


def appraise(thumbnail: UInt8, mpp: float, masks: ImageMasks | None = None) -> Appraisal:
    """Look for a stain and artefacts on a thumbnail, RGB uint8 (h, w, 3) of `mpp` µm per pixel.

    masks: those of the thumbnail, if they are known. Fluorescence has none of these artefacts. Debris is what is black
    or grey: rims of bubbles, dirt.
    """
    shrink = max(1, -(-max(thumbnail.shape[:2]) // MAX_SIDE))
    if shrink > 1 or masks is None:
        masks = ImageMasks(np.asarray(Image.fromarray(thumbnail).reduce(shrink)) if shrink > 1 else thumbnail)
    rgb = masks.rgb
    nothing = np.zeros(rgb.shape[:2], dtype=np.bool_)
    if is_dark(rgb):
        return Appraisal("fluorescence", dict.fromkeys(ARTEFACTS, nothing), nothing)
    ink, debris = masks.ink, masks.debris
    tissue = np.asarray(masks.stained & ~ink, dtype=np.bool_)
    if np.count_nonzero(tissue & debris) > _MOSTLY * np.count_nonzero(tissue):
        debris = nothing
    coloured = tissue & ~debris
    stain = stain_kind(rgb, coloured, masks.hsv)
    found = {"pen": ink, "debris": ndimage.binary_opening(debris & ~ink, iterations=_DEBRIS_CORE)}
    if stain not in CHROMOGENS:
        found["folds"] = folds(rgb, coloured, mpp * shrink)
    return Appraisal(stain, found, tissue)


def folds(rgb: UInt8, tissue: Mask, mpp: float) -> Mask:
    """Return bool (h, w), true where tissue, bool (h, w), lies double: twice as dense as most of it, in one piece."""
    if not tissue.any():
        return np.zeros_like(tissue)
    density = -np.log10((grey(smoothed(rgb)) + 1) / 256)
    dense = (density > FOLD * float(np.median(density[tissue]))) & (density > 0.25) & tissue
    half = max(1, round(_FOLD_UM / mpp / 2))
    core = ndimage.binary_erosion(dense, iterations=half)
    return np.asarray(ndimage.binary_dilation(core, iterations=half + 1) & dense, dtype=np.bool_)


def _shares(mask: Mask, begin: Float64, end: Float64, dimensions: tuple[int, int]) -> Float32:
    """Return the share of each box that a mask covers, float32 (n,); boxes (n, 2) in level-0 pixels."""
    height, width = mask.shape
    total = np.zeros((height + 1, width + 1), dtype=np.int64)
    total[1:, 1:] = mask.cumsum(axis=0, dtype=np.int64).cumsum(axis=1)
    scale, most = np.array([width, height]) / np.array(dimensions), np.array([width, height])
    low = np.clip(np.floor(begin * scale), 0, most - 1).astype(np.int64)
    high = np.maximum(np.clip(np.ceil(end * scale), 0, most).astype(np.int64), low + 1)
    (x0, y0), (x1, y1) = low.T, high.T
    inside = total[y1, x1] - total[y0, x1] - total[y1, x0] + total[y0, x0]
    return np.asarray(inside / ((x1 - x0) * (y1 - y0)), dtype=np.float32)
