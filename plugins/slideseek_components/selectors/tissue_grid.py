"""The regular grid of tissue cells that selectors choose from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slideseek.interfaces import Slide
from slideseek.types import Float64, Int32, Int64, UInt8
from slideseek_components.selectors.tissue import TissueMethod, slide_tissue

THUMBNAIL_MPP = 8.0
"""Resolution at which tissue is detected, in µm/px: coarse enough to bridge gaps inside tissue."""

THUMBNAIL_SIDE = (256, 4096)
"""Shortest and longest thumbnail in pixels, as far as the slide and its cells allow."""

CELL_SIDE = 8
"""Least width of a cell in thumbnail pixels: below that a tissue share is unreliable."""

LONGEST_SIDE = 8192
"""Longest thumbnail, even for very small cells: 200 MB of pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class TissueGrid:
    """The cells of one slide that show enough tissue, ordered by row, then column.

    dimensions: (width, height) of the slide in level-0 pixels. size, mpp: side of a cell in pixels at `mpp`.
    extent: the same side in level-0 pixels, not rounded. xy: int32 (n, 2), top-left in level-0 pixels.
    row, col: int32 (n,), place in the grid. cover: float64 (n,), tissue share of the part inside the slide.
    thumbnail: RGB uint8 (h, w, 3), the whole slide at low resolution.
    """

    slide_id: str
    dimensions: tuple[int, int]
    size: int
    mpp: float
    extent: float
    xy: Int32
    row: Int32
    col: Int32
    cover: Float64
    thumbnail: UInt8 = field(repr=False)

    def __len__(self) -> int:
        return len(self.xy)

    @property
    def spans(self) -> tuple[Float64, Float64]:
        """The cells in thumbnail pixels, cut at the border: horizontal and vertical float64 (n, 2), from and to."""
        return (
            _spans(self.xy[:, 0], self.extent, self.dimensions[0], self.thumbnail.shape[1]),
            _spans(self.xy[:, 1], self.extent, self.dimensions[1], self.thumbnail.shape[0]),
        )

    def mean_rgb(self) -> Float64:
        """Return the mean colour of each cell as the thumbnail shows it: float64 (n, 3), 0 to 255."""
        xs, column = np.unique(self.xy[:, 0], return_inverse=True)
        ys, line = np.unique(self.xy[:, 1], return_inverse=True)
        height, width = self.thumbnail.shape[:2]
        across = _spans(xs, self.extent, self.dimensions[0], width)
        down = _spans(ys, self.extent, self.dimensions[1], height)
        return np.stack([_cell_means(self.thumbnail[..., c], across, down)[line, column] for c in range(3)], axis=1)


def tissue_grid(
    slide: Slide,
    size: int,
    mpp: float,
    *,
    overlap: float = 0.0,
    min_tissue: float = 0.7,
    tissue: TissueMethod = "hsv-otsu",
    exclude_pen: bool = True,
) -> TissueGrid:
    """Lay a grid of square cells over `slide` and keep those with a tissue share of at least `min_tissue`.

    Cells have exactly the physical side `size * mpp` and lie inside the slide. Along an axis on which the slide is
    shorter than one cell there is one cell, anchored at the border, whose outside reads as white; a slide shorter on
    both axes yields that one cell if it shows any tissue, so no piece of tissue is too small to be found.

    overlap: share of a cell's side that the next cell repeats, 0 up to (not including) 1.
    """
    width, height = slide.dimensions
    extent = size * mpp / slide.mpp
    xs, ys = _origins(width, extent, overlap), _origins(height, extent, overlap)
    thumbnail = slide.thumbnail(_thumbnail_side(max(width, height), slide.mpp, extent))
    # A quarter of a cell: a cell never counts as tissue because of a filled gap.
    mask = slide_tissue(slide, thumbnail, tissue, exclude_pen, max_hole=0.25 * (size * mpp) ** 2)
    across, down = _spans(xs, extent, width, mask.shape[1]), _spans(ys, extent, height, mask.shape[0])
    cover = _cell_means(mask.astype(np.uint8), across, down)
    keep = cover > 0 if extent > max(width, height) else (cover > 0) & (cover >= min_tissue)
    row, col = np.nonzero(keep)
    return TissueGrid(
        slide_id=slide.id,
        dimensions=(width, height),
        size=size,
        mpp=mpp,
        extent=extent,
        xy=np.stack([xs[col], ys[row]], axis=1).astype(np.int32),
        row=row.astype(np.int32),
        col=col.astype(np.int32),
        cover=cover[row, col],
        thumbnail=thumbnail,
    )


def _origins(length: int, extent: float, overlap: float) -> Int64:
    """Return where the cells of one axis start, int64 in level-0 pixels; each is rounded separately."""
    step = extent * (1 - overlap)
    # The small term keeps a quotient that is an integer in decimal from falling below it in binary.
    count = max(1, math.floor((length - extent) / step + 1e-6) + 1)
    # Down, never up: a cell rounded up could extend beyond the slide by half a pixel.
    return np.asarray(np.floor(np.arange(count) * step + 1e-6), dtype=np.int64)


def _thumbnail_side(longest: int, slide_mpp: float, extent: float) -> int:
    """Return the thumbnail side for a slide whose longer side is `longest` level-0 pixels."""
    shortest, most = THUMBNAIL_SIDE
    wanted = min(max(longest * slide_mpp / THUMBNAIL_MPP, shortest), most)
    return min(longest, LONGEST_SIDE, math.ceil(max(wanted, CELL_SIDE * longest / extent)))


def _spans(origins: Int64 | Int32, extent: float, length: int, pixels: int) -> Float64:
    """Turn cell origins on an axis of `length` level-0 pixels into spans on `pixels` thumbnail pixels: (n, 2)."""
    ends = np.minimum(origins + extent, length)
    return np.stack([origins, ends], axis=1) * (pixels / length)


def _cell_means(image: UInt8, across: Float64, down: Float64) -> Float64:
    """Return the mean of `image` (h, w) over every cell `down[r]` x `across[c]`: float64 (r, c).

    Spans are in pixels and need not be whole: a sum that is cumulated over pixels is linear inside each of them, so
    reading it between pixels weighs a pixel cut by a border by exactly the part inside.
    """
    columns = _cumulate(image.astype(np.uint32))
    bands = _read(columns, down[:, 1]) - _read(columns, down[:, 0])
    lines = _cumulate(np.ascontiguousarray(bands.T))
    sums = (_read(lines, across[:, 1]) - _read(lines, across[:, 0])).T
    area = np.diff(down) * np.diff(across).T
    # Rounding removes the noise of the sums: a cell full of tissue has share 1, and equal colours are equal.
    return np.asarray(np.round(sums / area, 9), dtype=np.float64)


def _cumulate(values: np.ndarray) -> np.ndarray:
    """Sum up along the first axis, starting from a row of zeros: (n, m) becomes (n + 1, m)."""
    total = np.zeros((values.shape[0] + 1, *values.shape[1:]), dtype=values.dtype)
    np.cumsum(values, axis=0, out=total[1:])
    return total


def _read(total: np.ndarray, at: Float64) -> Float64:
    """Read a cumulated sum at fractional positions (k,) of its first axis: float64 (k, m)."""
    below = np.clip(np.floor(at).astype(np.int64), 0, len(total) - 2)
    part = (at - below)[:, None]
    return np.asarray(total[below] * (1 - part) + total[below + 1] * part, dtype=np.float64)
