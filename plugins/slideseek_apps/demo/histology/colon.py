"""Colon: crypts in rows with goblet cells, and adenocarcinoma with crowded irregular glands."""

from __future__ import annotations

import numpy as np

from slideseek.types import Float32
from slideseek_apps.demo.histology.canvas import STEP, Canvas, fragment
from slideseek_apps.demo.histology.cells import Blob, scatter
from slideseek_apps.demo.histology.connective import PLASMA_CELL, stroma, vessels, weave
from slideseek_apps.demo.histology.epithelium import borders, cytoplasm
from slideseek_apps.demo.histology.fields import ramp, sample
from slideseek_apps.demo.histology.tubes import Tubes, tubes, uniform, uphill

GOBLET = Blob(12.5, 9.0, spread=0.14, rough=0.06, stain=0.9, rim=0.0, chromatin=0.05)
DEBRIS = Blob(3.2, 2.4, spread=0.4, rough=0.1, stain=1.3)


def normal_mucosa(rng: np.random.Generator, side: int) -> Canvas:
    """Paint colonic mucosa: test-tube crypts in a lamina propria rich in plasma cells, surface on one side."""
    canvas = Canvas.with_tissue(rng, side, fragment(rng, side, rng.uniform(0.42, 0.56), rng.uniform(1.0, 1.7)))
    fibres = weave(canvas, wave=60, thickness=4)
    submucosa = ramp(canvas.noise(900), rng.uniform(0.9, 1.6), 2.4)
    stroma(canvas, ramp(canvas.depth, -2, 3), fibres, rng.uniform(0.36, 0.54), 0.25, rng.uniform(0.1, 0.5))
    canvas.add_cells(PLASMA_CELL, (canvas.depth > 8) * (1 - submucosa) * np.float32(rng.uniform(0.10, 0.35)), 14)
    vessels(canvas, canvas.depth > 60, int(rng.integers(5, 14)))

    turn = rng.uniform(0, 2 * np.pi)
    crypts = _crypts(canvas, turn, submucosa)
    depth = np.minimum(crypts.depth, canvas.depth - 4)
    cytoplasm(canvas, canvas.inside(depth), rng.uniform(0.36, 0.48), rng.uniform(0.20, 0.30))
    colonocyte = Blob(7.4, rng.uniform(4.3, 5.0), spread=0.11, rough=0.05, stain=rng.uniform(1.15, 1.4))
    present = (canvas.depth > 2).astype(np.float32)
    nuclei = canvas.add_cells(colonocyte, present * ramp(crypts.layer(10, 4), 0.25, 0.6), 9, crypts.inward, 0.2)
    borders(canvas, depth > 0, nuclei, 0.45)
    goblets = present * np.float32(rng.uniform(0.45, 0.9)) * ramp(crypts.layer(34, 9), 0.4, 0.9)
    _vacuoles(canvas, goblets, crypts.inward)
    hollow = crypts.depth - crypts.radius + np.float32(rng.uniform(6, 12)) + np.float32(3.5) * canvas.noise(44)
    canvas.fade(canvas.inside(np.minimum(hollow, canvas.depth - 8)), 0.9)
    _surface(canvas, turn, colonocyte)
    canvas.finish()
    return canvas


def _crypts(canvas: Canvas, turn: float, submucosa: Float32) -> Tubes:
    """Place crypts in rows along the direction `turn`, from cut across (round) to cut along (tubes)."""
    rng, side = canvas.rng, canvas.side
    radius, slant = rng.uniform(54, 68), min(rng.gamma(1.2, 0.8), 3.0)
    pitch = radius * rng.uniform(2.35, 2.65)
    reach = int(side / pitch) + 2
    i, j = np.meshgrid(np.arange(-reach, reach), np.arange(-reach, reach))
    u = (i + 0.5 * (j % 2)) * pitch + rng.normal(0, 0.07 * pitch, i.shape)
    v = j * 0.87 * pitch * (1 + 0.62 * slant) + rng.normal(0, 0.07 * pitch, i.shape)
    x, y = u * np.cos(turn) - v * np.sin(turn) + side / 2, u * np.sin(turn) + v * np.cos(turn) + side / 2
    centres = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
    centres = centres[((centres > 0) & (centres < side)).all(axis=1)]
    centres = centres[(sample(canvas.depth, centres, STEP) > 0.55 * radius) & (sample(submucosa, centres, STEP) < 0.3)]
    n = len(centres)
    widths = (radius * np.exp(rng.normal(0, 0.07, n))).astype(np.float32)
    lengths = (radius * slant * 0.75 * rng.uniform(0.8, 1.15, n)).astype(np.float32)
    angles = (turn + np.pi / 2 + rng.normal(0, 0.08, n)).astype(np.float32)
    return tubes(canvas, centres, widths, lengths, angles, bend=13, rugged=1.2)


def _vacuoles(canvas: Canvas, density: Float32, inward: Float32) -> None:
    """Add the pale mucin of goblet cells where the coarse `density` (0..1) allows."""
    xy = scatter(canvas.rng, density, STEP, 20)
    mucin = canvas.stamp(GOBLET, xy, sample(inward, xy, STEP))
    canvas.eosin *= 1 - np.float32(0.80) * mucin
    canvas.haematoxylin *= 1 - np.float32(canvas.rng.uniform(0.15, 0.45)) * mucin


def _surface(canvas: Canvas, turn: float, colonocyte: Blob) -> None:
    """Line the edge of the tissue that faces the lumen, the end of the crypts, with a single row of cells."""
    inward = uphill(canvas.depth)
    facing = np.cos(inward - np.float32(turn + np.pi / 2)) + np.float32(0.25) * canvas.noise(120)
    faced = ramp(facing, 0.25, 0.45)
    band = canvas.inside(np.minimum(canvas.depth, 36 - canvas.depth)) * canvas.full(faced)
    cytoplasm(canvas, band, 0.46, 0.24)
    row = np.exp(-(((canvas.depth - 27) / 4) ** 2)).astype(np.float32)
    canvas.add_cells(colonocyte, ramp(row, 0.25, 0.6) * (faced > 0.5), 9, inward, 0.2)
    _vacuoles(canvas, np.float32(0.3) * (faced > 0.5) * ((canvas.depth > 10) & (canvas.depth < 16)), inward)


def adenocarcinoma(rng: np.random.Generator, side: int) -> Canvas:
    """Paint adenocarcinoma: crowded glands of uneven size, stratified dark nuclei, debris in the lumens."""
    canvas = Canvas.with_tissue(rng, side, fragment(rng, side, rng.uniform(0.44, 0.60), rng.uniform(1.0, 1.5)))
    fibres = weave(canvas, wave=90, thickness=5)
    stroma(canvas, ramp(canvas.depth, -2, 3), fibres, rng.uniform(0.40, 0.60), 0.5, rng.uniform(0.1, 0.7))
    vessels(canvas, canvas.depth > 60, int(rng.integers(4, 12)))

    size = rng.uniform(66, 96)
    crowding = ramp(canvas.noise(420), -1.6, 0.3) * (canvas.depth > 10)
    centres = scatter(rng, crowding, STEP, size * rng.uniform(1.75, 2.15))
    n = len(centres)
    radius = np.clip(size * np.exp(rng.normal(0, 0.30, n)), 30, 170).astype(np.float32)
    lengths = (radius * rng.gamma(1.1, 0.55, n)).astype(np.float32)
    glands = tubes(canvas, centres, radius, lengths, uniform(canvas, 0, np.pi, n), bend=26, rugged=3.5)
    depth = np.minimum(glands.depth, canvas.depth - 3)
    cytoplasm(canvas, canvas.inside(depth), rng.uniform(0.46, 0.62), rng.uniform(0.30, 0.42))

    height = np.float32(rng.uniform(40, 54))
    hollow = depth - height * (1 + np.float32(0.15) * canvas.noise(60) + np.float32(0.05) * canvas.noise(20))
    dirty = ramp(canvas.noise(60), -1.2, 0.6) * (glands.trait < rng.uniform(0.15, 0.5))
    canvas.fade(canvas.inside(hollow) * (1 - np.float32(0.5) * canvas.full(dirty)), 0.93)
    canvas.add_cells(DEBRIS, (hollow > 8) * dirty * np.float32(0.16), 8)

    grade = rng.uniform(0, 1)
    look = Blob(
        length=rng.uniform(9.0, 10.8),
        width=rng.uniform(4.6, 5.4) + 1.4 * grade,
        spread=0.14 + 0.08 * grade,
        rough=0.08,
        stain=rng.uniform(1.35, 1.65),
        chromatin=0.26,
        nucleoli=0.25 * grade,
    )
    strata = ramp(depth, 3, 8) * ramp(depth, 0.72 * float(height), 0.45 * float(height))
    nuclei = canvas.add_cells(look, np.float32(0.9) * strata, 10, glands.inward, 0.2 + 0.3 * grade)
    borders(canvas, (depth > 0) & (hollow < 4), nuclei, 0.3)
    canvas.finish()
    return canvas
