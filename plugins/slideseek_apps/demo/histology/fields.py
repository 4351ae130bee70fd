"""Smooth random fields and resampling: the raw material of every texture.

All fields are float32 and square. Interpolation goes through sparse matrices, which is quick and, unlike dense
products, gives the same bytes whatever the number of threads.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import ndimage, sparse

from slideseek.types import Float32, Float64


@lru_cache(maxsize=64)
def _spline_basis(side: int, grain: float) -> sparse.csr_array:
    """Return the (side, knots) matrix of uniform cubic B-splines whose knots are `grain` pixels apart."""
    return _cubic(np.arange(side) / grain + 1, int((side - 1) / grain) + 4)


@lru_cache(maxsize=16)
def _enlarging_basis(side: int, small: int) -> sparse.csr_array:
    """Return the (side, small) matrix that spreads each of `small` pixels as a cubic B-spline, borders repeated."""
    return _cubic((np.arange(side) + 0.5) * small / side - 0.5, small)


def _cubic(position: Float64, knots: int) -> sparse.csr_array:
    """Return the (n, knots) weights of a cubic B-spline with whole-numbered knots at n positions."""
    knot = np.floor(position)
    t = position - knot
    weights = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3], axis=1) / 6
    columns = np.clip(knot[:, None].astype(np.int64) + np.arange(-1, 3), 0, knots - 1)
    rows = np.repeat(np.arange(len(position)), 4)
    shape = (len(position), knots)
    return sparse.csr_array((weights.ravel().astype(np.float32), (rows, columns.ravel())), shape=shape)


def smooth_noise(rng: np.random.Generator, side: int, grain: float, across: float | None = None) -> Float32:
    """Draw a random field of about unit variance, (side, side); features are `grain` pixels wide along x.

    across: their size along y, the same when left out.
    """
    basis_x = _spline_basis(side, grain)
    basis_y = _spline_basis(side, grain if across is None else across)
    knots = rng.standard_normal((basis_y.shape[1], basis_x.shape[1]), dtype=np.float32)
    # 0.479 is the mean of the summed squared weights of a cubic B-spline: dividing gives unit variance.
    return _separable(basis_y, knots / np.float32(0.479), basis_x)


def enlarge(field: Float32, side: int) -> Float32:
    """Enlarge a square field to (side, side), rounding its corners off."""
    basis = _enlarging_basis(side, len(field))
    return _separable(basis, field, basis)


def _separable(rows: sparse.csr_array, field: Float32, columns: sparse.csr_array) -> Float32:
    """Return rows @ field @ columns.T, transposing only the narrow intermediate."""
    wide = np.ascontiguousarray((columns @ field.T).T)
    return np.asarray(rows @ wide, dtype=np.float32)


def ramp(field: Float32, low: float, high: float) -> Float32:
    """Map `low` to 0 and `high` to 1 with smooth shoulders; `low` may be the larger one."""
    t = np.subtract(field, np.float32(low), dtype=np.float32)
    t *= np.float32(1 / (high - low))
    np.clip(t, 0, 1, out=t)
    shoulder = 3 - 2 * t
    t *= t
    t *= shoulder
    return t


def grid(small: int, step: int) -> tuple[Float32, Float32]:
    """Return x and y in full-resolution pixels of the centres of a (small, small) grid of `step`-pixel cells."""
    line = (np.arange(small, dtype=np.float32) + np.float32(0.5)) * step
    return np.broadcast_to(line[None, :], (small, small)), np.broadcast_to(line[:, None], (small, small))


def sample(field: Float32, xy: Float32, step: int) -> Float32:
    """Read a field of `step`-pixel cells at full-resolution points (n, 2); the nearest cell is used."""
    column, row = np.clip((xy.T / step).astype(np.int64), 0, len(field) - 1)
    return np.asarray(field[row, column], dtype=np.float32)


def look_up(texture: Float32, x: Float32, y: Float32) -> Float32:
    """Read a texture at arbitrary coordinates; beyond its borders it is mirrored, to avoid seams."""
    return np.asarray(ndimage.map_coordinates(texture, (y, x), order=1, mode="mirror"), dtype=np.float32)
