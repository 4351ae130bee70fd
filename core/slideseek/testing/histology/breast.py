"""Breast: ductal carcinoma in solid nests, and lobular carcinoma in single files, both between fat and fibres."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from slideseek.testing.histology.canvas import FIBROBLAST, STEP, Canvas, Fibres, fragment, stroma, vessels, weave
from slideseek.testing.histology.cells import Nucleus, scatter
from slideseek.testing.histology.fields import enlarge, grid, ramp, sample
from slideseek.testing.histology.glands import borders, clear, cytoplasm, fade, inside_of, tubes
from slideseek.types import Float32

DUCT_CELL = Nucleus(6.6, 5.0, spread=0.10, stain=1.35)


def ductal_carcinoma(rng: np.random.Generator, side: int) -> Canvas:
    """Paint ductal carcinoma: solid nests of large uneven nuclei in a fibrous stroma."""
    canvas, fibres, dense = _breast(rng, side)
    size = rng.uniform(44, 74)
    crowd = ramp(canvas.noise(380), rng.uniform(-1.6, -0.6), 0.8) * dense * (canvas.depth > 8)
    centres = scatter(rng, crowd.astype(np.float32), STEP, size * rng.uniform(2.0, 2.5))
    n = len(centres)
    radius = np.clip(size * np.exp(rng.normal(0, 0.38, n)), 20, 150).astype(np.float32)
    nests = tubes(
        canvas,
        centres,
        radius,
        (radius * rng.gamma(1.2, 0.7, n)).astype(np.float32),
        sample(fibres.angle, centres, STEP) + rng.normal(0, 0.5, n).astype(np.float32),
        bend=30,
        rugged=6.5,
    )
    depth = np.minimum(nests.depth, canvas.depth - 3)
    inside = inside_of(canvas, depth)
    clear(canvas, inside)
    cytoplasm(canvas, inside, rng.uniform(0.44, 0.62), rng.uniform(0.26, 0.38))
    # A rim of shrinkage around some nests, and small lumens or necrosis in the middle of the larger ones.
    edge = depth + 6 * ramp(canvas.noise(150), 0.7, 1.7) - 6
    fade(canvas, ramp(canvas.full(edge), -6, -3) * (1 - inside), 0.9)
    holes = np.minimum(depth - 34, 16 * (canvas.noise(46) - 1.1 - 0.8 * nests.trait)).astype(np.float32)
    fade(canvas, inside_of(canvas, holes), 0.92)

    grade = rng.uniform(0, 1)
    look = Nucleus(
        rng.uniform(8.6, 9.8) + 1.6 * grade,
        rng.uniform(7.0, 7.8) + 1.2 * grade,
        spread=0.15 + 0.12 * grade,
        rough=0.07,
        stain=rng.uniform(1.0, 1.25),
        rim=0.42,
        chromatin=0.26,
        nucleoli=0.4 + 0.4 * grade,
    )
    xy = canvas.add_cells(look, ramp(depth, 3, 8) * (holes < -3) * np.float32(0.95), rng.uniform(17.5, 20.5))
    borders(canvas, depth > 0, xy, 0.5)
    stray = (depth < -8) * (canvas.depth > 10) * dense * ramp(canvas.noise(260), 0.4, 1.8)
    canvas.add_cells(look, (stray * rng.uniform(0.05, 0.25)).astype(np.float32), 26)
    canvas.finish()
    return canvas


def lobular_carcinoma(rng: np.random.Generator, side: int) -> Canvas:
    """Paint lobular carcinoma: small even cells, one behind the other between the fibres."""
    canvas, fibres, dense = _breast(rng, side)
    pitch = rng.uniform(44, 70)
    file = np.abs((fibres.across / np.float32(pitch) + 0.25 * canvas.noise(120)) % 1 - 0.5) * pitch
    spread = ramp(canvas.noise(240), rng.uniform(-1.6, -0.7), 1.0) * dense * (canvas.depth > 8)
    rows = (file < 3.2) * np.sqrt(spread) * ramp(canvas.noise(90), -1.0, 0.0)
    clusters = ramp(canvas.noise(110), 1.5, 2.1) * spread * np.float32(rng.uniform(0.2, 0.8))
    look = Nucleus(
        rng.uniform(6.6, 7.6),
        rng.uniform(5.6, 6.3),
        spread=rng.uniform(0.09, 0.14),
        rough=0.05,
        stain=rng.uniform(1.15, 1.4),
        rim=0.18,
        chromatin=0.16,
        nucleoli=0.08,
    )
    xy = canvas.add_cells(look, np.clip(rows + clusters, 0, 1).astype(np.float32), 13.5, fibres.angle, 0.35)
    body = canvas.stamp(Nucleus(11, 8.5, spread=0.12, rough=0.08, stain=1.0, rim=0, chromatin=0.1), xy)
    body *= np.float32(rng.uniform(0.7, 1.0))
    canvas.eosin += body * (np.float32(0.42) - canvas.eosin)
    canvas.haematoxylin += body * (np.float32(0.24) - canvas.haematoxylin)
    canvas.finish()
    return canvas


def _breast(rng: np.random.Generator, side: int) -> tuple[Canvas, Fibres, Float32]:
    """Paint what both carcinomas share: fibrous stroma, fat, vessels, a few benign ducts.

    Returns the canvas, its fibres and the coarse mask of the fibrous part.
    """
    canvas = Canvas.with_tissue(rng, side, fragment(rng, side, rng.uniform(0.44, 0.58), rng.uniform(1.0, 1.5)))
    fibres = weave(canvas, wave=80, thickness=5.5)
    tissue = ramp(canvas.depth, -2, 3)
    lobes = canvas.noise(480) + np.float32(0.25) * canvas.noise(110) + np.float32(0.05) * canvas.noise(30)
    level = np.quantile(lobes[canvas.depth > 0], 1 - rng.uniform(0.0, 0.28))
    fatty = ramp(lobes - np.float32(level), -0.03, 0.03) * tissue
    dense = tissue * (1 - fatty)
    stroma(canvas, dense, fibres, rng.uniform(0.38, 0.56), rng.uniform(0.2, 0.4), rng.uniform(0.0, 0.4))
    _fat(canvas, fatty)
    vessels(canvas, dense * (canvas.depth > 50), int(rng.integers(3, 9)))
    _ducts(canvas, dense, int(rng.integers(0, 4)))
    return canvas, fibres, dense


def _fat(canvas: Canvas, where: Float32) -> None:
    """Fill the coarse region `where` with fat cells: empty polygons between thin walls."""
    seeds = scatter(canvas.rng, (where > 0.02).astype(np.float32), STEP, 74)
    if len(seeds) < 3:
        return
    # Walls are thinner than a coarse cell: this field alone is computed at half resolution.
    half = canvas.side // 2
    region = enlarge(where, half)
    rows, columns = np.nonzero(region > 0.02)
    x, y = grid(half, 2)
    at = np.stack([(x + enlarge(7 * canvas.noise(60), half))[rows, columns]], axis=1)
    at = np.concatenate([at, (y + enlarge(7 * canvas.noise(60), half))[rows, columns][:, None]], axis=1)
    distance, _ = cKDTree(seeds).query(at, k=2)
    gap = np.full((half, half), 99, dtype=np.float32)
    gap[rows, columns] = distance[:, 1] - distance[:, 0]
    wall = ramp(enlarge(gap, canvas.side), 7.0, 2.5) * canvas.full(where)
    canvas.eosin += 0.42 * wall
    canvas.haematoxylin += 0.07 * wall
    gap = gap[::2, ::2]
    canvas.add_cells(FIBROBLAST, (where > 0.5) * (gap < 6) * np.float32(0.08), 24)


def _ducts(canvas: Canvas, where: Float32, count: int) -> None:
    """Put a few benign ducts into the coarse region `where`: two rows of small regular nuclei around a lumen."""
    rows, columns = np.nonzero((where > 0.9) & (canvas.depth > 90))
    if not count or not len(rows):
        return
    rng = canvas.rng
    pick = rng.choice(len(rows), count, replace=False)
    centres = np.stack([columns[pick], rows[pick]], axis=1).astype(np.float32) * STEP
    ducts = tubes(
        canvas,
        centres,
        rng.uniform(34, 60, count).astype(np.float32),
        rng.uniform(0, 70, count).astype(np.float32),
        rng.uniform(0, np.pi, count).astype(np.float32),
        bend=14,
        rugged=2.0,
    )
    clear(canvas, inside_of(canvas, ducts.depth))
    cytoplasm(canvas, inside_of(canvas, ducts.depth), 0.48, 0.24)
    fade(canvas, inside_of(canvas, ducts.depth - 26), 0.93)
    canvas.add_cells(DUCT_CELL, ramp(ducts.layer(7, 3), 0.3, 0.6), 10.5, ducts.inward + np.float32(np.pi / 2), 0.3)
    canvas.add_cells(DUCT_CELL, ramp(ducts.layer(18, 3), 0.3, 0.6), 11.5, ducts.inward, 0.3)
