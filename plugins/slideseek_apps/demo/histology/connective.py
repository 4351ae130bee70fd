"""Connective tissue: fibres and their cells, vessels, fat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from slideseek.types import Float32, Mask
from slideseek_apps.demo.histology.canvas import STEP, Canvas
from slideseek_apps.demo.histology.cells import Blob, scatter
from slideseek_apps.demo.histology.fields import enlarge, grid, look_up, ramp, smooth_noise
from slideseek_apps.demo.histology.tubes import pick_places, tubes, uniform, uphill

FIBROBLAST = Blob(11.0, 2.3, spread=0.25, rough=0.10, stain=1.25, rim=0.05)
LYMPHOCYTE = Blob(5.6, 5.2, spread=0.08, stain=1.75, chromatin=0.12)
PLASMA_CELL = Blob(6.4, 5.4, spread=0.10, stain=1.4, chromatin=0.3)
RED_CELL = Blob(6.4, 5.8, spread=0.08, stain=1.15, rim=0.3, chromatin=0.03)


@dataclass(frozen=True, slots=True)
class Fibres:
    """Wavy bundles of collagen.

    texture: (side, side), about unit variance. angle: coarse direction of the bundles, radians.
    across: coarse coordinate that counts pixels from bundle to bundle.
    """

    texture: Float32
    angle: Float32
    across: Float32


def weave(canvas: Canvas, wave: float, thickness: float) -> Fibres:
    """Weave fibres: stripes of about `thickness` pixels seen through a smooth deformation of `wave` pixels."""
    rng, half = canvas.rng, canvas.side // 2
    turn = rng.uniform(0, np.pi)
    cos, sin = np.float32(np.cos(turn)), np.float32(np.sin(turn))
    bends = (np.float32(wave) * (canvas.noise(360) + np.float32(0.22) * canvas.noise(90)) for _ in range(2))
    x, y = (line + bend for line, bend in zip(grid(canvas.small, STEP), bends))
    along, across = x * cos + y * sin, y * cos - x * sin
    stripes = smooth_noise(rng, 1024, 90, 2.4 * thickness)
    stripes += np.float32(0.80) * smooth_noise(rng, 1024, 55, thickness)
    stripes += np.float32(0.55) * smooth_noise(rng, 1024, 24, 2)
    texture = look_up(stripes / np.float32(1.4), enlarge(along, half), enlarge(across, half))
    return Fibres(enlarge(texture, canvas.side), uphill(across) + np.float32(np.pi / 2), across)


def stroma(canvas: Canvas, where: Float32, fibres: Fibres, eosin: float, cells: float, inflammation: float) -> None:
    """Fill the coarse region `where` (0..1) with fibres.

    eosin: mean concentration. cells: density of fibroblasts. inflammation: density of lymphocytes, in patches.
    """
    weight, loose = canvas.full(where), canvas.full(canvas.noise(220))
    # Clefts: thin gaps between bundles, more of them where the tissue is loose.
    weight *= 1 - np.float32(0.9) * ramp(np.float32(0.5) * loose - fibres.texture, 1.3, 1.9)
    pink = np.float32(eosin) * (1 + np.float32(0.30) * fibres.texture - np.float32(0.14) * loose)
    pink += np.float32(0.05 * eosin) * canvas.grain
    np.clip(pink, 0.05, None, out=pink)
    pink *= weight
    canvas.eosin += pink
    canvas.haematoxylin += np.float32(0.2) * pink
    solid = (where > 0.6).astype(np.float32)
    canvas.add_cells(FIBROBLAST, solid * np.float32(cells) * ramp(canvas.noise(160), -2.0, 1.5), 17, fibres.angle, 0.25)
    patches = np.float32(inflammation) * (ramp(canvas.noise(200), 0.2, 1.9) + np.float32(0.04))
    canvas.add_cells(LYMPHOCYTE, solid * patches, 11.5)


def vessels(canvas: Canvas, where: Mask, count: int) -> None:
    """Cut small vessels with red cells into the coarse mask `where`."""
    centres = pick_places(canvas, where, count)
    radius, half_length = uniform(canvas, 7, 15, len(centres)), uniform(canvas, 0, 26, len(centres))
    lumen = tubes(canvas, centres, radius, half_length, uniform(canvas, 0, np.pi, len(centres)), bend=7, rugged=1.0)
    canvas.clear(np.float32(0.96) * canvas.inside(lumen.depth))
    red_cells = scatter(canvas.rng, np.float32(0.75) * (lumen.depth > 3), STEP, 10.5)
    canvas.eosin += canvas.stamp(RED_CELL, red_cells)
    canvas.eosin += np.float32(0.35) * canvas.full(lumen.layer(-4, 3))
    tangent = lumen.inward + np.float32(np.pi / 2)
    canvas.add_cells(FIBROBLAST, np.float32(0.5) * (np.abs(lumen.depth + 3) < 3), 20, tangent, 0.1)


def fat(canvas: Canvas, where: Float32) -> None:
    """Fill the coarse region `where` (0..1) with fat cells: empty polygons between thin walls."""
    seeds = scatter(canvas.rng, (where > 0.02).astype(np.float32), STEP, 74)
    if len(seeds) < 3:
        return
    # Walls are thinner than a coarse cell: these fields are computed at half resolution.
    half = canvas.side // 2
    rows, columns = np.nonzero(enlarge(where, half) > 0.02)
    bent = [(line + enlarge(7 * canvas.noise(60), half))[rows, columns] for line in grid(half, 2)]
    distance, _ = cKDTree(seeds).query(np.stack(bent, axis=1), k=2)
    gap = np.full((half, half), 99, dtype=np.float32)
    gap[rows, columns] = distance[:, 1] - distance[:, 0]
    wall = ramp(enlarge(gap, canvas.side), 7.0, 2.5) * canvas.full(where)
    canvas.eosin += np.float32(0.42) * wall
    canvas.haematoxylin += np.float32(0.07) * wall
    canvas.add_cells(FIBROBLAST, np.float32(0.08) * ((where > 0.5) & (gap[::2, ::2] < 6)), 24)
