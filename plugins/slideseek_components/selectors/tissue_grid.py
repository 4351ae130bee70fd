"""The regular grid of tissue cells that selectors choose from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slideseek.interfaces import Outlined, Slide
from slideseek.slides.geojson import mask_from_geojson
from slideseek.types import Float64, Int32, Int64, Mask, UInt8
from slideseek_components.selectors.tissue import TissueMethod, tissue_mask

THUMBNAIL_MPP = 8.0
"""Resolution tissue is looked for at, in µm/px: coarse enough to bridge the gaps inside a tissue."""

THUMBNAIL_SIDE = (256, 4096)
"""Shortest and longest thumbnail in pixels, as far as the slide and its cells allow."""

CELL_SIDE = 8
"""Thumbnail pixels a cell should be wide at least: below that a tissue share says little."""

CROP_UM2 = 1e6
"""Area below which a slide is a crop, not a section: one square millimetre."""

LONGEST_SIDE = 8192
"""Longest thumbnail asked for, however small the cells: 200 MB of pixels."""


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
    among: Mask | Sequence[tuple[float, float]] | None = None,
) -> TissueGrid:
    """Lay a grid of square cells over `slide` and keep those with a tissue share of at least `min_tissue`.

    Cells have exactly the physical side `size * mpp` and lie inside the slide. Along an axis on which the slide is
    shorter than one cell there is one cell, anchored at the border, whose outside reads as white; a slide shorter on
    both axes yields that one cell whenever it shows any tissue, so that no piece of tissue is too small to be found.

    A slide that comes with an outline (`Outlined.contours`) has its tissue there and nowhere else.

    overlap: share of a cell's side that the next cell repeats, 0 up to (not including) 1.
    among: keep only the cells whose centre lies in a region: a mask of the whole slide, bool (h, w) at any
    resolution, or the corners (x, y) of a polygon in level-0 pixels.
    """
    width, height = slide.dimensions
    extent = size * mpp / slide.mpp
    xs, ys = _origins(width, extent, overlap), _origins(height, extent, overlap)
    thumbnail = slide.thumbnail(_thumbnail_side(max(width, height), slide.mpp, extent))
    # On a crop all of the tissue may be smaller than what is dust on a whole slide: let shares of the image decide.
    is_crop = width * height * slide.mpp**2 < CROP_UM2
    thumbnail_mpp = None if is_crop else slide.mpp * width / thumbnail.shape[1]
    if isinstance(slide, Outlined) and slide.contours is not None:
        mask = mask_from_geojson(slide.contours, slide.dimensions, thumbnail.shape[:2])
    else:
        # A quarter of a cell: a cell is never tissue for the sake of a gap that was filled.
        mask = tissue_mask(
            thumbnail,
            method=tissue,
            exclude_pen=exclude_pen,
            mpp=thumbnail_mpp,
            max_hole=0.25 * (size * mpp) ** 2,
        )
    across, down = _spans(xs, extent, width, mask.shape[1]), _spans(ys, extent, height, mask.shape[0])
    cover = _cell_means(mask.astype(np.uint8), across, down)
    keep = cover > 0 if extent > max(width, height) else (cover > 0) & (cover >= min_tissue)
    if among is not None:
        x, y = _middles(xs, extent, width), _middles(ys, extent, height)
        keep &= _centres_in(among, x, y, (width, height))
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
    """Return where the cells of one axis start, int64 in level-0 pixels; each is rounded alone, so none drifts."""
    step = extent * (1 - overlap)
    # The small term keeps a quotient that is whole in decimals from falling below it in binary.
    count = max(1, math.floor((length - extent) / step + 1e-6) + 1)
    # Down, never up: a cell rounded up could leave the slide by half a pixel.
    return np.asarray(np.floor(np.arange(count) * step + 1e-6), dtype=np.int64)


def _thumbnail_side(longest: int, slide_mpp: float, extent: float) -> int:
    """Return the side to ask of a thumbnail of a slide whose longer side is `longest` level-0 pixels."""
    shortest, most = THUMBNAIL_SIDE
    wanted = min(max(longest * slide_mpp / THUMBNAIL_MPP, shortest), most)
    return min(longest, LONGEST_SIDE, math.ceil(max(wanted, CELL_SIDE * longest / extent)))


def _spans(origins: Int64 | Int32, extent: float, length: int, pixels: int) -> Float64:
    """Turn cell origins on an axis of `length` level-0 pixels into spans on `pixels` thumbnail pixels: (n, 2)."""
    ends = np.minimum(origins + extent, length)
    return np.stack([origins, ends], axis=1) * (pixels / length)


def _middles(origins: Int64, extent: float, length: int) -> Float64:
    """Return the middle of the part of each cell inside an axis of `length`, float64 in level-0 pixels."""
    return np.asarray((origins + np.minimum(origins + extent, length)) / 2, dtype=np.float64)


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
    # Rounding takes the noise of the sums away: a cell full of tissue has share 1, equal colours are equal.
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


def _centres_in(
    region: Mask | Sequence[tuple[float, float]], x: Float64, y: Float64, dimensions: tuple[int, int]
) -> Mask:
    """Say which centres lie in a mask of the slide or a polygon: x (c,) and y (r,) in level-0 pixels to bool (r, c)."""
    if isinstance(region, np.ndarray) and region.dtype == np.bool_:
        height, width = region.shape
        rows = np.clip((y * height / dimensions[1]).astype(np.int64), 0, height - 1)
        cols = np.clip((x * width / dimensions[0]).astype(np.int64), 0, width - 1)
        return np.asarray(region[np.ix_(rows, cols)], dtype=np.bool_)
    corners = np.asarray(region, dtype=np.float64).reshape(-1, 2)
    inside = np.zeros((len(y), len(x)), dtype=np.bool_)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0)):
        crosses = (y0 > y) != (y1 > y)
        # A ray to the right of the centre changes side at every edge it meets (even-odd rule).
        edge = x0 + (y - y0) * ((x1 - x0) / (y1 - y0) if y1 != y0 else 0.0)
        inside ^= crosses[:, None] & (x[None, :] < edge[:, None])
    return inside
