"""Exact sums of an image over cells whose borders lie between pixels."""

from __future__ import annotations

import numpy as np

from slideseek.types import Float64, Int32, Int64, Mask, UInt8


def spans(origins: Int64 | Int32, extent: float, length: int, pixels: int) -> Float64:
    """Turn cell origins on an axis of `length` level-0 pixels into spans on `pixels` thumbnail pixels: (n, 2)."""
    ends = np.minimum(origins + extent, length)
    return np.stack([origins, ends], axis=1) * (pixels / length)


def cell_sums(image: UInt8, across: Float64, down: Float64) -> Float64:
    """Return the sum of `image` (h, w) over every cell `down[r]` x `across[c]`: float64 (r, c).

    Spans are in pixels and need not be whole: a sum that is cumulated over pixels is linear inside each of them, so
    reading it between pixels weighs a pixel cut by a border by exactly the part inside.
    """
    columns = _cumulate(image.astype(np.uint32))
    bands = _read(columns, down[:, 1]) - _read(columns, down[:, 0])
    lines = _cumulate(np.ascontiguousarray(bands.T))
    return np.asarray((_read(lines, across[:, 1]) - _read(lines, across[:, 0])).T)


def cell_means(image: UInt8, across: Float64, down: Float64) -> Float64:
    """Return the mean of `image` (h, w) over every cell `down[r]` x `across[c]`: float64 (r, c)."""
    area = np.diff(down) * np.diff(across).T
    # Rounding removes the noise of the sums: a cell full of tissue has share 1, and equal colours are equal.
    return np.asarray(np.round(cell_sums(image, across, down) / area, 9), dtype=np.float64)


def each_mean(image: UInt8, across: Float64, down: Float64) -> Float64:
    """Return the mean of `image` (h, w) over the n cells `down[i]` x `across[i]`, anywhere in it: float64 (n,)."""
    total = np.zeros((image.shape[0] + 1, image.shape[1] + 1), dtype=np.int64)
    np.cumsum(np.cumsum(image, axis=0, dtype=np.int64), axis=1, out=total[1:, 1:])
    corners = [_read_at(total, down[:, i], across[:, j]) for i in (0, 1) for j in (0, 1)]
    area = np.diff(down)[:, 0] * np.diff(across)[:, 0]
    return np.asarray(np.round((corners[3] - corners[2] - corners[1] + corners[0]) / area, 9), dtype=np.float64)


def painted(shape: tuple[int, ...], across: Float64, down: Float64) -> Mask:
    """Return bool `shape` (h, w), true in the n cells `down[i]` x `across[i]`, borders rounded to whole pixels."""
    change = np.zeros((shape[0] + 1, shape[1] + 1), dtype=np.int32)
    x, y = np.rint(across).astype(np.int64), np.rint(down).astype(np.int64)
    for i in (0, 1):
        for j in (0, 1):
            np.add.at(change, (y[:, i], x[:, j]), 1 if i == j else -1)
    return np.asarray(change.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] > 0, dtype=np.bool_)


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


def _read_at(total: Int64, y: Float64, x: Float64) -> Float64:
    """Read a sum cumulated over both axes at the fractional positions (y[i], x[i]): float64 (k,)."""
    top = np.clip(np.floor(y).astype(np.int64), 0, total.shape[0] - 2)
    left = np.clip(np.floor(x).astype(np.int64), 0, total.shape[1] - 2)
    v, u = y - top, x - left
    upper = total[top, left] * (1 - u) + total[top, left + 1] * u
    lower = total[top + 1, left] * (1 - u) + total[top + 1, left + 1] * u
    return np.asarray(upper * (1 - v) + lower * v, dtype=np.float64)
