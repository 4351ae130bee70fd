"""Colon: crypts in rows with goblet cells, and adenocarcinoma with crowded irregular glands."""

from __future__ import annotations

import numpy as np

from slideseek.testing.histology.canvas import LYMPHOCYTE, PLASMA, STEP, Canvas, fragment, stroma, vessels, weave
from slideseek.testing.histology.cells import Nucleus, scatter
from slideseek.testing.histology.fields import ramp, sample
from slideseek.testing.histology.glands import borders, clear, cytoplasm, fade, inside_of, tubes

GOBLET = Nucleus(12.5, 9.0, spread=0.14, rough=0.06, stain=0.9, rim=0.0, chromatin=0.05)
DEBRIS = Nucleus(3.2, 2.4, spread=0.4, rough=0.1, stain=1.3)


def normal_mucosa(rng: np.random.Generator, side: int) -> Canvas:
    """Paint colonic mucosa: test-tube crypts in a lamina propria rich in plasma cells."""
    canvas = Canvas.with_tissue(rng, side, fragment(rng, side, rng.uniform(0.42, 0.56), rng.uniform(1.0, 1.7)))
    fibres = weave(canvas, wave=60, thickness=4)
    tissue = inside_of(canvas, canvas.depth)
    deep = ramp(canvas.noise(900), rng.uniform(0.9, 1.6), 2.4)  # submucosa, free of crypts, on some slides
    stroma(canvas, ramp(canvas.depth, -2, 3), fibres, rng.uniform(0.36, 0.54), 0.25, rng.uniform(0.1, 0.5))
    canvas.add_cells(PLASMA, (canvas.depth > 8) * (1 - deep) * np.float32(rng.uniform(0.10, 0.35)), 14)
    vessels(canvas, (canvas.depth > 60).astype(np.float32), int(rng.integers(5, 14)))

    radius = rng.uniform(54, 68)
    pitch = radius * rng.uniform(2.35, 2.65)
    turn, slant = rng.uniform(0, np.pi), np.clip(rng.gamma(1.2, 0.8), 0, 3.0)
    centres = _lattice(rng, side, pitch, pitch * (1 + 0.62 * slant), turn)
    kept = (sample(canvas.depth, centres, STEP) > radius * 0.55) & (sample(deep, centres, STEP) < 0.3)
    centres = centres[kept]
    n = len(centres)
    crypts = tubes(
        canvas,
        centres,
        (radius * np.exp(rng.normal(0, 0.07, n))).astype(np.float32),
        (radius * slant * 0.75 * rng.uniform(0.8, 1.15, n)).astype(np.float32),
        (turn + np.pi / 2 + rng.normal(0, 0.08, n)).astype(np.float32),
        bend=13,
        rugged=1.2,
    )
    # Crypts end where the tissue ends.
    depth = np.minimum(crypts.depth, canvas.depth - 4)
    inside = inside_of(canvas, depth)
    clear(canvas, inside)
    cytoplasm(canvas, inside, rng.uniform(0.36, 0.48), rng.uniform(0.20, 0.30))
    present = (canvas.depth > 2).astype(np.float32)
    colonocyte = Nucleus(7.4, rng.uniform(4.3, 5.0), spread=0.11, rough=0.05, stain=rng.uniform(1.15, 1.4))
    nuclei = canvas.add_cells(colonocyte, present * ramp(crypts.layer(10, 4), 0.25, 0.6), 9, crypts.inward, 0.2)
    borders(canvas, depth > 0, nuclei, 0.45)
    goblets = present * np.float32(rng.uniform(0.45, 0.9)) * ramp(crypts.layer(34, 9), 0.4, 0.9)
    vacuoles = scatter(rng, goblets, STEP, 20)
    mucin = canvas.stamp(GOBLET, vacuoles, sample(crypts.inward, vacuoles, STEP))
    canvas.eosin *= 1 - np.float32(0.80) * mucin
    canvas.haematoxylin *= 1 - np.float32(rng.uniform(0.15, 0.45)) * mucin
    hollow = crypts.depth - crypts.radius + np.float32(rng.uniform(6, 12)) + 3.5 * canvas.noise(44)
    fade(canvas, inside_of(canvas, np.minimum(hollow, canvas.depth - 8)), 0.9)
    _mask(canvas, tissue)
    return canvas


def adenocarcinoma(rng: np.random.Generator, side: int) -> Canvas:
    """Paint adenocarcinoma: crowded glands of uneven size, stratified dark nuclei, debris, desmoplastic stroma."""
    canvas = Canvas.with_tissue(rng, side, fragment(rng, side, rng.uniform(0.44, 0.60), rng.uniform(1.0, 1.5)))
    fibres = weave(canvas, wave=90, thickness=5)
    tissue = inside_of(canvas, canvas.depth)
    stroma(canvas, ramp(canvas.depth, -2, 3), fibres, rng.uniform(0.40, 0.60), 0.5, rng.uniform(0.1, 0.7))
    vessels(canvas, (canvas.depth > 60).astype(np.float32), int(rng.integers(4, 12)))

    size = rng.uniform(66, 96)
    crowding = ramp(canvas.noise(420), -1.6, 0.3) * (canvas.depth > 10)
    centres = scatter(rng, crowding.astype(np.float32), STEP, size * rng.uniform(1.75, 2.15))
    n = len(centres)
    radius = np.clip(size * np.exp(rng.normal(0, 0.30, n)), 30, 170).astype(np.float32)
    glands = tubes(
        canvas,
        centres,
        radius,
        (radius * rng.gamma(1.1, 0.55, n)).astype(np.float32),
        rng.uniform(0, np.pi, n).astype(np.float32),
        bend=26,
        rugged=3.5,
    )
    depth = np.minimum(glands.depth, canvas.depth - 3)
    inside = inside_of(canvas, depth)
    clear(canvas, inside)
    cytoplasm(canvas, inside, rng.uniform(0.46, 0.62), rng.uniform(0.30, 0.42))
    height = rng.uniform(40, 54) * (1 + 0.15 * canvas.noise(60) + 0.05 * canvas.noise(20))
    hollow = depth - height
    lumen = inside_of(canvas, hollow.astype(np.float32))
    dirty = ramp(canvas.noise(60), -1.2, 0.6) * (glands.trait < rng.uniform(0.15, 0.5))
    canvas.eosin *= 1 - (0.93 - 0.5 * canvas.full(dirty)) * lumen
    canvas.haematoxylin *= 1 - (0.93 - 0.2 * canvas.full(dirty)) * lumen
    canvas.add_cells(DEBRIS, (hollow > 8) * dirty * np.float32(0.16), 8)

    grade = rng.uniform(0, 1)
    look = Nucleus(
        rng.uniform(9.0, 10.8),
        rng.uniform(4.6, 5.4) + 1.4 * grade,
        spread=0.14 + 0.08 * grade,
        rough=0.08,
        stain=rng.uniform(1.35, 1.65),
        rim=0.15,
        chromatin=0.26,
        nucleoli=0.25 * grade,
    )
    strata = ramp(depth, 3, 8) * ramp(depth, height.mean() * 0.72, height.mean() * 0.45)
    xy = canvas.add_cells(look, strata * np.float32(0.9), 10, glands.inward, 0.2 + 0.3 * grade)
    borders(canvas, (depth > 0) & (hollow < 4), xy, 0.3)
    canvas.add_cells(LYMPHOCYTE, ((glands.depth < -4) & (canvas.depth > 6)) * np.float32(0.03), 13)
    _mask(canvas, tissue)
    return canvas


def _lattice(rng: np.random.Generator, side: int, pitch_u: float, pitch_v: float, turn: float) -> np.ndarray:
    """Return jittered points (n, 2) of a hexagonal lattice, rows along the direction `turn`."""
    span = np.arange(-int(side / min(pitch_u, pitch_v)) - 2, int(side / min(pitch_u, pitch_v)) + 3)
    i, j = np.meshgrid(span, span)
    u, v = (i + 0.5 * (j % 2)) * pitch_u, j * pitch_v * 0.87
    u, v = u + rng.normal(0, 0.07 * pitch_u, u.shape), v + rng.normal(0, 0.07 * pitch_u, v.shape)
    x, y = u * np.cos(turn) - v * np.sin(turn) + side / 2, u * np.sin(turn) + v * np.cos(turn) + side / 2
    points = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
    return points[((points > 0) & (points < side)).all(axis=1)]


def _mask(canvas: Canvas, tissue: np.ndarray) -> None:
    for field in (canvas.haematoxylin, canvas.eosin, canvas.nuclei, canvas.cover):
        field *= tissue
    canvas.finish()
