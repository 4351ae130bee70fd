"""Cells laid over the tissue instead of over the slide: each piece has a grid of its own, shifted to fit it.

A grid that starts at the corner of the slide cuts a biopsy wherever its lines fall. Here pieces further apart than a
cell are fitted one by one: of a few shifts, the one whose cells hold most tissue is taken. Cells at the rim of the
tissue are added, fullest first, until the wanted share of the piece lies in a cell.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import ndimage

from slideseek.types import Float64, Int64, Mask
from slideseek_components.selectors.cell_sums import cell_sums, painted, spans

MAX_PADDING = 0.5
"""Largest share of a cell outside the slide: with more, a patch would mostly show padding."""

LEAST_TISSUE = 0.1
"""Least share of tissue in a cell at the rim: with less, a patch shows glass."""

POOLED = 4
"""Squares per side of a cell in which tissue is looked for when pieces are separated."""

SHIFTS = ((100, 8), (2_000, 4))
"""Shifts tried per axis by the most cells of a piece they are for; larger pieces have little rim, and get two."""


def fitted_cells(
    mask: Mask, dimensions: tuple[int, int], extent: float, overlap: float, min_tissue: float, represent: float
) -> tuple[Int64, Float64]:
    """Return the cells that fit the tissue: int64 (n, 2), top-left in level-0 pixels, and their tissue share (n,).

    mask: bool (h, w), the tissue on a thumbnail of the whole slide. dimensions: (width, height) of the slide and
    extent: side of a cell, both in level-0 pixels. overlap: share of a cell's side that the next one repeats.
    Cells with a tissue share of at least `min_tissue` are always taken; at the rim of a piece others are, until
    `represent` of its tissue lies in a cell. A piece of at least one cell's area has at least one cell. Cells lie
    inside the slide unless it is smaller than a cell; one with more than half of its area outside is left out.
    """
    width, height = dimensions
    inside = min(1.0, width / extent) * min(1.0, height / extent)
    if not mask.any() or 1 - inside > MAX_PADDING:
        return np.empty((0, 2), np.int64), np.empty(0)
    scale = mask.shape[1] / width, mask.shape[0] / height
    cell = extent * scale[0] * extent * scale[1]
    pieces = _Pieces(mask.shape, dimensions, extent, overlap, min_tissue, represent)
    for crop, member in _groups(mask, min(extent * scale[0], extent * scale[1])):
        pieces.take(crop, member)
    # Of pieces that were fitted together, a small one may have lost to a large one.
    labels, _ = ndimage.label(mask, structure=np.ones((3, 3), dtype=np.int8))
    areas = np.bincount(labels.ravel())
    held = np.bincount(labels[pieces.painted()], minlength=len(areas))
    boxes = ndimage.find_objects(labels)
    for number in np.flatnonzero((areas >= cell) & (held < min(0.5, represent) * areas)):
        if number:
            box = boxes[number - 1]
            pieces.take(box, np.asarray(labels[box] == number), always=True)
    return pieces.cells()


def _groups(mask: Mask, side: float) -> list[tuple[tuple[slice, slice], Mask]]:
    """Return the pieces of tissue, those nearer than about a cell of `side` pixels taken together.

    Each is its bounding box in the mask and its own pixels in there, bool; no cell that holds pixels of one holds any
    of another, so each can be fitted alone.
    """
    pool = max(1, int(side // POOLED))
    rows, columns = (-(-length // pool) for length in mask.shape)
    padded = np.zeros((rows * pool, columns * pool), dtype=np.bool_)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    small = padded.reshape(rows, pool, columns, pool).any(axis=(1, 3))
    reach = math.ceil(side / pool / 2)
    labels, _ = ndimage.label(ndimage.maximum_filter(small, 2 * reach + 1, mode="constant"))
    labels[~small] = 0
    found = []
    for number, box in enumerate(ndimage.find_objects(labels), start=1):
        if box is None:
            continue
        down, across = (slice(part.start * pool, min(part.stop * pool, n)) for part, n in zip(box, mask.shape))
        own = (labels[box] == number).repeat(pool, axis=0).repeat(pool, axis=1)
        part = mask[down, across] & own[: down.stop - down.start, : across.stop - across.start]
        (tight,) = ndimage.find_objects(part.astype(np.uint8))
        crop = (
            slice(down.start + tight[0].start, down.start + tight[0].stop),
            slice(across.start + tight[1].start, across.start + tight[1].stop),
        )
        found.append((crop, part[tight]))
    return found


class _Pieces:
    """The cells taken so far, piece by piece."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dimensions: tuple[int, int],
        extent: float,
        overlap: float,
        min_tissue: float,
        represent: float,
    ) -> None:
        self._frame = shape, dimensions, extent, overlap
        self._min_tissue = min_tissue
        self._represent = represent
        self._xy = [np.empty((0, 2), np.int64)]
        self._cover = [np.empty(0)]

    def take(self, crop: tuple[slice, slice], member: Mask, always: bool = False) -> None:
        """Take the cells of one piece: `member`, bool, are its pixels in the part `crop` of the mask.

        always: take the fullest cell even if it shows little tissue.
        """
        places, shares, sums = _Fit(member, crop, *self._frame).best(self._min_tissue)
        order = np.lexsort((np.arange(len(sums)), -sums))
        before = np.cumsum(sums[order]) - sums[order]
        wanted = before < self._represent * float(np.count_nonzero(member))
        least = min(LEAST_TISSUE, self._min_tissue)
        taken = (shares[order] >= self._min_tissue) | (wanted & (shares[order] >= least))
        taken[:1] |= always
        self._xy.append(places[order[taken]])
        self._cover.append(shares[order[taken]])

    def painted(self) -> Mask:
        """Return the part of the mask in a cell, bool."""
        (height, width), dimensions, extent, _ = self._frame
        xy, _ = self.cells()
        across = spans(xy[:, 0], extent, dimensions[0], width)
        return painted((height, width), across, spans(xy[:, 1], extent, dimensions[1], height))

    def cells(self) -> tuple[Int64, Float64]:
        """Return the cells, each once: int64 (n, 2) and their tissue share (n,), by row, then column."""
        xy, cover = np.concatenate(self._xy), np.concatenate(self._cover)
        _, first = np.unique(xy[:, ::-1], axis=0, return_index=True)
        return xy[first], cover[first]


class _Fit:
    """The grids that may be laid over one piece of tissue."""

    def __init__(
        self,
        member: Mask,
        crop: tuple[slice, slice],
        shape: tuple[int, ...],
        dimensions: tuple[int, int],
        extent: float,
        overlap: float,
    ) -> None:
        self._member = member.astype(np.uint8)
        self._crop = crop
        self._shape = shape
        self._dimensions = dimensions
        self._extent = extent
        self._step = extent * (1 - overlap)

    def best(self, min_tissue: float) -> tuple[Int64, Float64, Float64]:
        """Return the cells of the grid with most tissue in cells of at least `min_tissue`.

        int64 (n, 2) top-left in level-0 pixels, the tissue share of each (n,), and its own tissue in pixels (n,).
        Of equally good shifts the first is taken: by row, then by column.
        """
        height, width = self._member.shape
        cells = width * height / self._pixels(0, self._step) / self._pixels(1, self._step)
        shifts = next((number for most, number in SHIFTS if cells <= most), 2)
        best, found = -1.0, None
        for down in range(shifts):
            ys = self._origins(1, down / shifts)
            for across in range(shifts):
                xs = self._origins(0, across / shifts)
                cover, sums = self._measured(xs, ys)
                score = float(sums[cover >= min_tissue].sum())
                if score > best + 1e-6:
                    best, found = score, (xs, ys, cover, sums)
        assert found is not None
        xs, ys, cover, sums = found
        places = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
        held = sums.ravel() > 0
        return places[held], cover.ravel()[held], sums.ravel()[held]

    def _pixels(self, axis: int, length: float) -> float:
        """Return a length of level-0 pixels in pixels of the thumbnail."""
        return length * self._shape[1 - axis] / self._dimensions[axis]

    def _origins(self, axis: int, shift: float) -> Int64:
        """Return where cells start on an axis (0 is x), int64 level-0 pixels; `shift` is a share of the step."""
        length = self._dimensions[axis]
        part = self._crop[1 - axis]
        scale = length / self._shape[1 - axis]
        begin, end = part.start * scale, part.stop * scale
        first = begin - shift * self._step
        count = max(1, math.ceil((end - first - self._extent) / self._step - 1e-6) + 1)
        last = max(0.0, length - self._extent)
        return np.unique(np.floor(np.clip(first + np.arange(count) * self._step, 0.0, last) + 1e-6).astype(np.int64))

    def _measured(self, xs: Int64, ys: Int64) -> tuple[Float64, Float64]:
        """Return the tissue share of every cell and its own tissue in pixels: float64 (rows, columns).

        What a cell repeats of the one before, because it was moved into the slide or cells overlap, is not its own.
        """
        across = spans(xs, self._extent, self._dimensions[0], self._shape[1])
        down = spans(ys, self._extent, self._dimensions[1], self._shape[0])
        area = np.diff(down) * np.diff(across).T
        sums = np.round(cell_sums(self._member, self._inner(across, 1), self._inner(down, 0)), 6)
        share = np.round(sums / area, 9)
        if (across[1:, 0] < across[:-1, 1]).any() or (down[1:, 0] < down[:-1, 1]).any():
            for ends in (across, down):
                ends[1:, 0] = np.maximum(ends[1:, 0], ends[:-1, 1])
            sums = np.round(cell_sums(self._member, self._inner(across, 1), self._inner(down, 0)), 6)
        return share, sums

    def _inner(self, ends: Float64, axis: int) -> Float64:
        """Return spans on the thumbnail as spans on the bounding box: this piece has no tissue outside it."""
        moved: Float64 = np.clip(ends - self._crop[axis].start, 0, self._member.shape[axis])
        return moved
