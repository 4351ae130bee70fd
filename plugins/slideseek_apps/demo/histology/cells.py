"""Cells: their positions and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from slideseek.types import Float32, Int64
from slideseek_apps.demo.histology.fields import smooth_noise

CHUNK = 256


@dataclass(frozen=True, slots=True)
class Blob:
    """The look of one kind of soft ellipse: mostly nuclei, also vacuoles and red cells.

    length, width: half axes in pixels of 0.5 µm. spread: standard deviation of the log size. rough: bumps of the
    outline as a share of the radius. stain: concentration. rim: how much darker the envelope is than the inside.
    chromatin: contrast of the clumps. nucleoli: share of nuclei that show one.
    """

    length: float
    width: float
    spread: float = 0.12
    rough: float = 0.06
    stain: float = 1.3
    rim: float = 0.15
    chromatin: float = 0.2
    nucleoli: float = 0.0


def scatter(rng: np.random.Generator, density: Float32, step: int, spacing: float) -> Float32:
    """Scatter points at least `spacing` pixels apart: (n, 2) xy in full-resolution pixels.

    density: (small, small) chance in 0..1 of a candidate to be kept, one value per cell of `step` pixels.
    """
    side = len(density) * step
    pitch = spacing * 0.55
    line = np.arange(pitch / 2, side, pitch, dtype=np.float32)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    points += rng.uniform(-pitch / 2, pitch / 2, points.shape).astype(np.float32)
    cell = np.clip((points / step).astype(np.int64), 0, len(density) - 1)
    points = points[rng.random(len(points), dtype=np.float32) < density[cell[:, 1], cell[:, 0]]]
    rng.shuffle(points)
    return points[_apart(points, spacing)]


def _apart(points: Float32, spacing: float) -> Int64:
    """Return indices of points that are pairwise `spacing` apart, earlier points taking precedence."""
    alive = np.arange(len(points))
    kept = np.empty(0, dtype=np.int64)
    # Each round keeps the points without an earlier neighbour and drops theirs; two rounds leave few gaps.
    for _ in range(2):
        if not len(alive):
            break
        pairs = cKDTree(points[alive]).query_pairs(spacing, output_type="ndarray")
        first = np.ones(len(alive), dtype=bool)
        first[pairs.max(axis=1)] = False
        chosen = alive[first]
        kept = np.concatenate([kept, chosen])
        rest = alive[~first]
        near, _ = cKDTree(points[chosen]).query(points[rest], distance_upper_bound=spacing)
        alive = rest[~np.isfinite(near)]
    return kept


class Stamper:
    """Draw many soft-edged ellipses at once into fields of (side, side)."""

    def __init__(self, rng: np.random.Generator, side: int) -> None:
        self._rng = rng
        self._side = side
        self._grains = smooth_noise(rng, 256, 3.2)

    def draw(self, look: Blob, xy: Float32, angle: Float32, cover: Float32, stain: Float32) -> None:
        """Draw one ellipse per point; `cover` and `stain` keep the larger of the old and the new value.

        xy: (n, 2) centres in pixels. angle: (n,) direction of the long axis in radians. cover: 0..1, what
        share of a pixel is inside. stain: concentration. Both (side, side), changed in place.
        """
        n = len(xy)
        size = np.exp(self._rng.normal(0, look.spread, n))
        stretch = np.exp(self._rng.normal(0, look.spread * 0.6, n))
        a = np.clip(look.length * size * stretch, 1.2, 2.2 * look.length).astype(np.float32)
        b = np.clip(look.width * size / stretch, 1.0, 2.2 * look.width).astype(np.float32)
        # Large ellipses first and small ones last, so each chunk uses the smallest window possible.
        order = np.argsort(-a, kind="stable")
        for start in range(0, n, CHUNK):
            part = order[start : start + CHUNK]
            self._draw(look, xy[part], angle[part], a[part], b[part], cover, stain)

    def _draw(
        self, look: Blob, xy: Float32, angle: Float32, a: Float32, b: Float32, cover: Float32, stain: Float32
    ) -> None:
        rng, n = self._rng, len(xy)
        reach = int(np.ceil(max(a.max(), b.max()) * (1 + 2 * look.rough))) + 2
        offset = np.arange(-reach, reach + 1, dtype=np.float32)
        corner = np.floor(xy).astype(np.int64)
        shift = (xy - corner).astype(np.float32)[:, :, None, None]
        dx, dy = offset[None, None, :] - shift[:, 0], offset[None, :, None] - shift[:, 1]
        cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
        u = dx * (cos / a[:, None, None]) + dy * (sin / a[:, None, None])
        v = dy * (cos / b[:, None, None]) - dx * (sin / b[:, None, None])
        # From here on only the pixels near an ellipse: about a third of the window, less for slender ones.
        limit = 1 + 3 * np.float32(look.rough) + np.float32(0.8) / np.minimum(a, b)
        which, row, column = np.nonzero(u * u + v * v < (limit * limit)[:, None, None])
        x, y = corner[which, 0] + column - reach, corner[which, 1] + row - reach
        visible = (x >= 0) & (x < self._side) & (y >= 0) & (y < self._side)
        which, row, column = which[visible], row[visible], column[visible]
        flat = y[visible] * self._side + x[visible]
        u, v = u[which, row, column], v[which, row, column]

        radius = np.sqrt(u * u + v * v) + np.float32(1e-3)
        p, q = u / radius, v / radius
        bump = rng.normal(0, look.rough, (4, n)).astype(np.float32)[:, which]
        # cos and sin of twice and three times the polar angle, without an arctangent per pixel.
        radius *= (
            1
            + bump[0] * (p * p - q * q)
            + bump[1] * (2 * p * q)
            + (bump[2] * p * (p * p - 3 * q * q) + bump[3] * q * (3 * p * p - q * q))
        )
        inside = np.clip((1 - radius) * (np.minimum(a, b) / np.float32(1.6))[which] + np.float32(0.5), 0, 1)

        jitter = rng.integers(0, 256, (2, n))
        clumps = self._grains[(row + jitter[0, which]) % 256, (column + jitter[1, which]) % 256]
        tone = rng.normal(1, 0.12, n).astype(np.float32)
        envelope = np.exp(-(((radius - np.float32(0.88)) / np.float32(0.16)) ** 2)) - np.float32(0.5)
        body = tone[which] + np.float32(look.chromatin) * clumps + np.float32(look.rim) * envelope
        if look.nucleoli:
            place = rng.normal(0, 0.22, (2, n)).astype(np.float32)[:, which]
            shown = (rng.random(n) < look.nucleoli).astype(np.float32)[which]
            near = ((u - place[0]) * a[which]) ** 2 + ((v - place[1]) * b[which]) ** 2
            body += np.float32(0.7) * shown * np.exp(-near / np.float32(3.5))
        np.maximum.at(cover.reshape(-1), flat, inside)
        np.maximum.at(stain.reshape(-1), flat, inside * np.float32(look.stain) * np.clip(body, 0.25, 1.8))
