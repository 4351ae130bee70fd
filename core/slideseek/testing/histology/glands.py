"""Tubes of epithelium: glands, crypts, ducts and nests as unions of bent capsules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from slideseek.testing.histology.canvas import STEP, Canvas
from slideseek.testing.histology.fields import grid, ramp, smooth_noise
from slideseek.types import Float32


@dataclass(frozen=True, slots=True)
class Tubes:
    """A field of tubes. All arrays are coarse, lengths in pixels.

    depth: distance below the outer surface, negative in the stroma. radius: half width of the tube a cell lies in.
    inward: direction of growing depth, radians. trait: one random number in 0..1 a tube, to vary its look.
    """

    depth: Float32
    radius: Float32
    inward: Float32
    trait: Float32

    def layer(self, at: float | Float32, width: float) -> Float32:
        """Return 1 on the surface at depth `at` and less away from it, Gaussian in `width` pixels."""
        return np.exp(-(((self.depth - at) / np.float32(width)) ** 2)).astype(np.float32)


def tubes(
    canvas: Canvas, centres: Float32, radius: Float32, half_length: Float32, angle: Float32, bend: float, rugged: float
) -> Tubes:
    """Build tubes around segments: centres (n, 2), half width, half length and direction of each, in pixels.

    bend: amplitude of the smooth deformation of the whole. rugged: bumps of the surface.
    """
    small = canvas.small
    x, y = grid(small, STEP)
    x = x + np.float32(bend) * canvas.noise(150) + np.float32(0.3 * bend) * canvas.noise(48)
    y = y + np.float32(bend) * canvas.noise(150) + np.float32(0.3 * bend) * canvas.noise(48)
    depth = np.full((small, small), -1e3, dtype=np.float32)
    width, trait = np.full((small, small), 1.0, dtype=np.float32), np.zeros((small, small), dtype=np.float32)
    traits = canvas.rng.random(len(centres), dtype=np.float32)
    for (cx, cy), r, h, turn, own in zip(centres, radius, half_length, angle, traits):
        reach = h + r + 3.5 * bend + 40
        rows = slice(max(int((cy - reach) / STEP), 0), max(int((cy + reach) / STEP), 0))
        columns = slice(max(int((cx - reach) / STEP), 0), max(int((cx + reach) / STEP), 0))
        dx, dy = x[rows, columns] - cx, y[rows, columns] - cy
        along = dx * np.cos(turn) + dy * np.sin(turn)
        off = dy * np.cos(turn) - dx * np.sin(turn)
        own_depth = r - np.hypot(np.clip(np.abs(along) - h, 0, None), off)
        nearer = own_depth > depth[rows, columns]
        depth[rows, columns] = np.where(nearer, own_depth, depth[rows, columns])
        width[rows, columns] = np.where(nearer, r, width[rows, columns])
        trait[rows, columns] = np.where(nearer, own, trait[rows, columns])
    depth = depth + np.float32(rugged) * canvas.noise(34)
    slope_y, slope_x = np.gradient(depth)
    return Tubes(depth, width, np.arctan2(slope_y, slope_x).astype(np.float32), trait)


def clear(canvas: Canvas, inside: Float32) -> None:
    """Take away everything painted so far inside the full-resolution mask `inside` (0..1)."""
    keep = 1 - inside
    for field in (canvas.haematoxylin, canvas.eosin, canvas.nuclei, canvas.cover):
        field *= keep


def fade(canvas: Canvas, where: Float32, share: float) -> None:
    """Take `share` of both stains away in the full-resolution mask `where` (0..1); nuclei stay."""
    keep = 1 - np.float32(share) * where
    canvas.eosin *= keep
    canvas.haematoxylin *= keep


def cytoplasm(canvas: Canvas, weight: Float32, eosin: float, haematoxylin: float) -> None:
    """Fill the full-resolution mask `weight` (0..1) with granular cytoplasm."""
    texture = smooth_noise(canvas.rng, canvas.side, 2.6)
    texture += canvas.full(canvas.noise(55))
    texture *= weight
    canvas.eosin += np.float32(eosin) * (weight + np.float32(0.12) * texture)
    canvas.haematoxylin += np.float32(haematoxylin) * (weight + np.float32(0.18) * texture)


def borders(canvas: Canvas, where: Float32, nuclei: Float32, strength: float) -> None:
    """Draw the borders between cells: the places in the coarse region `where` as far from two nuclei (n, 2)."""
    rows, columns = np.nonzero(where)
    if len(nuclei) < 2 or not len(rows):
        return
    x, y = grid(canvas.small, STEP)
    distance, _ = cKDTree(nuclei).query(np.stack([x[rows, columns], y[rows, columns]], axis=1), k=2)
    line = np.zeros_like(canvas.depth)
    line[rows, columns] = np.exp(-(((distance[:, 1] - distance[:, 0]) / 4.0) ** 2))
    canvas.eosin *= 1 + np.float32(strength) * (canvas.full(line) - np.float32(0.25))


def inside_of(canvas: Canvas, depth: Float32) -> Float32:
    """Return the soft full-resolution mask of the places where the coarse `depth` is positive."""
    return ramp(canvas.full(depth), -1.2, 1.2)
