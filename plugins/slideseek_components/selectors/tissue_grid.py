"""The regular grid of tissue cells that selectors choose from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from slideseek.interfaces import Pyramidal, Slide
from slideseek.types import Float64, Int32, Int64, UInt8
from slideseek_components.selectors.cell_sums import cell_means, each_mean, painted, spans
from slideseek_components.selectors.fitted_grid import fitted_cells
from slideseek_components.selectors.image_masks import ImageMasks
from slideseek_components.selectors.tissue import TissueMethod, slide_tissue

THUMBNAIL_MPP = 8.0
"""Resolution at which tissue is detected, in µm/px: coarse enough to bridge gaps inside tissue."""

THUMBNAIL_SIDE = (256, 4096)
"""Shortest and longest thumbnail in pixels, as far as the slide and its cells allow."""

CELL_SIDE = 8
"""Least width of a cell in thumbnail pixels: below that a tissue share is unreliable."""

FITTED_CELL_SIDE = 4
"""The same for cells fitted to the tissue: their shares are exact between pixels, and a finer thumbnail costs time."""

Anchor: TypeAlias = Literal["slide", "tissue"]

LONGEST_SIDE = 8192
"""Longest thumbnail, even for very small cells: 200 MB of pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class TissueGrid:
    """The cells of one slide that show enough tissue, ordered by row, then column.

    dimensions: (width, height) of the slide in level-0 pixels. size, mpp: side of a cell in pixels at `mpp`.
    extent: the same side in level-0 pixels, not rounded. xy: int32 (n, 2), top-left in level-0 pixels.
    row, col: int32 (n,), place in the grid; the nearest one if cells are fitted to the tissue. cover: float64 (n,),
    tissue share of the part inside the slide. thumbnail: RGB uint8 (h, w, 3), the whole slide at low resolution.
    tissue_um2: area of the tissue found, and left_out_um2: of its part in no cell. regular: whether cells lie in rows
    and columns. masks: those of the thumbnail, as far as they are known.
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
    tissue_um2: float = 0.0
    left_out_um2: float = 0.0
    regular: bool = True
    masks: ImageMasks | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.xy)

    @property
    def spans(self) -> tuple[Float64, Float64]:
        """The cells in thumbnail pixels, cut at the border: horizontal and vertical float64 (n, 2), from and to."""
        return (
            spans(self.xy[:, 0], self.extent, self.dimensions[0], self.thumbnail.shape[1]),
            spans(self.xy[:, 1], self.extent, self.dimensions[1], self.thumbnail.shape[0]),
        )

    def mean_rgb(self) -> Float64:
        """Return the mean colour of each cell as the thumbnail shows it: float64 (n, 3), 0 to 255."""
        if not self.regular:
            return np.stack([each_mean(self.thumbnail[..., c], *self.spans) for c in range(3)], axis=1)
        xs, column = np.unique(self.xy[:, 0], return_inverse=True)
        ys, line = np.unique(self.xy[:, 1], return_inverse=True)
        height, width = self.thumbnail.shape[:2]
        across = spans(xs, self.extent, self.dimensions[0], width)
        down = spans(ys, self.extent, self.dimensions[1], height)
        return np.stack([cell_means(self.thumbnail[..., c], across, down)[line, column] for c in range(3)], axis=1)


def tissue_grid(
    slide: Slide,
    size: int,
    mpp: float,
    *,
    overlap: float = 0.0,
    min_tissue: float = 0.7,
    tissue: TissueMethod = "hsv-otsu",
    exclude_pen: bool = True,
    exclude_debris: bool = True,
    anchor: Anchor = "slide",
    represent: float = 0.9,
) -> TissueGrid:
    """Lay a grid of square cells over `slide` and keep those with enough tissue.

    Cells have exactly the physical side `size * mpp` and lie inside the slide. overlap: share of a cell's side that the
    next cell repeats, 0 up to (not including) 1.

    anchor `slide`: one grid from the corner of the slide; cells with a tissue share of at least `min_tissue` are kept.
    Along an axis on which the slide is shorter than one cell there is one cell, anchored at the border, whose outside
    reads as white; a slide shorter on both axes yields that one cell if it shows any tissue.

    anchor `tissue`: `fitted_cells`, a grid shifted to each piece of tissue and completed at its rim until `represent`
    of the piece lies in a cell.
    """
    width, height = slide.dimensions
    extent = size * mpp / slide.mpp
    side = _thumbnail_side(max(width, height), slide.mpp, extent)
    if anchor == "tissue":
        side = _thumbnail_side(max(width, height), slide.mpp, extent, FITTED_CELL_SIDE)
        side = slide.nearest_side(side) if isinstance(slide, Pyramidal) else side
    thumbnail = slide.thumbnail(side)
    # A quarter of a cell: a cell never counts as tissue because of a filled gap.
    masks, hole = ImageMasks(thumbnail), 0.25 * (size * mpp) ** 2
    mask = slide_tissue(slide, thumbnail, tissue, exclude_pen, exclude_debris, max_hole=hole, masks=masks)
    if anchor == "tissue":
        xy, cover = fitted_cells(mask, (width, height), extent, overlap, min_tissue, represent)
        row, col = np.rint(xy[:, ::-1].T / (extent * (1 - overlap))).astype(np.int64)
        order = np.lexsort((xy[:, 0], xy[:, 1], col, row))
        xy, cover, row, col = xy[order], cover[order], row[order], col[order]
    else:
        xs, ys = _origins(width, extent, overlap), _origins(height, extent, overlap)
        across, down = spans(xs, extent, width, mask.shape[1]), spans(ys, extent, height, mask.shape[0])
        covers = cell_means(mask.astype(np.uint8), across, down)
        row, col = np.nonzero((covers > 0) & ((covers >= min_tissue) | (extent > max(width, height))))
        xy, cover = np.stack([xs[col], ys[row]], axis=1), covers[row, col]
    pixel = width * height * slide.mpp**2 / mask.size
    held = painted(
        mask.shape,
        spans(xy[:, 0], extent, width, mask.shape[1]),
        spans(xy[:, 1], extent, height, mask.shape[0]),
    )
    return TissueGrid(
        slide_id=slide.id,
        dimensions=(width, height),
        size=size,
        mpp=mpp,
        extent=extent,
        xy=xy.astype(np.int32),
        row=row.astype(np.int32),
        col=col.astype(np.int32),
        cover=cover,
        thumbnail=thumbnail,
        tissue_um2=float(np.count_nonzero(mask) * pixel),
        left_out_um2=float(np.count_nonzero(mask & ~held) * pixel),
        regular=anchor == "slide",
        masks=masks,
    )


def _origins(length: int, extent: float, overlap: float) -> Int64:
    """Return where the cells of one axis start, int64 in level-0 pixels; each is rounded separately."""
    step = extent * (1 - overlap)
    # The small term keeps a quotient that is an integer in decimal from falling below it in binary.
    count = max(1, math.floor((length - extent) / step + 1e-6) + 1)
    # Down, never up: a cell rounded up could extend beyond the slide by half a pixel.
    return np.asarray(np.floor(np.arange(count) * step + 1e-6), dtype=np.int64)


def _thumbnail_side(longest: int, slide_mpp: float, extent: float, cell_side: int = CELL_SIDE) -> int:
    """Return the thumbnail side for a slide whose longer side is `longest` level-0 pixels.

    cell_side: least width of a cell in thumbnail pixels.
    """
    shortest, most = THUMBNAIL_SIDE
    wanted = min(max(longest * slide_mpp / THUMBNAIL_MPP, shortest), most)
    return min(longest, LONGEST_SIDE, math.ceil(max(wanted, cell_side * longest / extent)))
