"""Tubes: crypts, glands, ducts, nests and vessels are all unions of bent capsules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.types import Float32, Mask
from slideseek_apps.demo.histology.canvas import STEP, Canvas
from slideseek_apps.demo.histology.fields import grid


@dataclass(frozen=True, slots=True)
class Tubes:
    """The course of tubes. All arrays are coarse, lengths in pixels.

    depth: distance below the outer surface, negative outside. radius: half width of the nearest tube.
    inward: direction of growing depth, radians. trait: one random number in 0..1 per tube, to vary its look.
    """

    depth: Float32
    radius: Float32
    inward: Float32
    trait: Float32

    def layer(self, at: float, width: float) -> Float32:
        """Return 1 at depth `at` and less away from it, Gaussian in `width` pixels."""
        return np.asarray(np.exp(-(((self.depth - np.float32(at)) / np.float32(width)) ** 2)), dtype=np.float32)


def tubes(
    canvas: Canvas, centres: Float32, radius: Float32, half_length: Float32, angle: Float32, bend: float, rugged: float
) -> Tubes:
    """Place tubes around segments: centres (n, 2), half width, half length and direction (n,), pixels and radians.

    bend: amplitude of the deformation of the whole. rugged: height of the bumps of the surface.
    """
    small = canvas.small
    x, y = (
        line + np.float32(bend) * (canvas.noise(150) + np.float32(0.3) * canvas.noise(48)) for line in grid(small, STEP)
    )
    depth = np.full((small, small), -1e3, dtype=np.float32)
    width, trait = np.ones((small, small), dtype=np.float32), np.zeros((small, small), dtype=np.float32)
    traits = canvas.rng.random(len(centres), dtype=np.float32)
    for (cx, cy), r, h, turn, own in zip(centres, radius, half_length, angle, traits):
        # Only pixels near a tube: the deformation hardly ever exceeds 3.5 standard deviations.
        reach = h + r + 3.5 * bend + 40
        rows, columns = (slice(max(int((c - reach) / STEP), 0), max(int((c + reach) / STEP), 0)) for c in (cy, cx))
        dx, dy = x[rows, columns] - cx, y[rows, columns] - cy
        along, off = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
        below = r - np.hypot(np.clip(np.abs(along) - h, 0, None), off)
        nearer = below > depth[rows, columns]
        for field, value in ((depth, below), (width, r), (trait, own)):
            field[rows, columns] = np.where(nearer, value, field[rows, columns])
    depth += np.float32(rugged) * canvas.noise(34)
    return Tubes(depth, width, uphill(depth), trait)


def uphill(depth: Float32) -> Float32:
    """Return the direction of the steepest rise of a coarse field, radians."""
    slope_y, slope_x = np.gradient(depth)
    return np.asarray(np.arctan2(slope_y, slope_x), dtype=np.float32)


def pick_places(canvas: Canvas, where: Mask, count: int) -> Float32:
    """Pick at most `count` random points (n, 2) in pixels inside the coarse mask `where`."""
    rows, columns = np.nonzero(where)
    pick = canvas.rng.choice(len(rows), min(count, len(rows)), replace=False) if len(rows) else np.empty(0, np.int64)
    return np.stack([columns[pick], rows[pick]], axis=1).astype(np.float32) * STEP


def uniform(canvas: Canvas, low: float, high: float, n: int) -> Float32:
    """Draw n numbers between two bounds."""
    return canvas.rng.uniform(low, high, n).astype(np.float32)
