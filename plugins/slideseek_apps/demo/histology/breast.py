"""Breast: ductal carcinoma in solid nests, and lobular carcinoma in single files, both between fat and fibres."""

from __future__ import annotations

import numpy as np

from slideseek.types import Float32
from slideseek_apps.demo.histology.canvas import STEP, Canvas, fragment
from slideseek_apps.demo.histology.cells import Blob, scatter
from slideseek_apps.demo.histology.connective import Fibres, fat, stroma, vessels, weave
from slideseek_apps.demo.histology.epithelium import borders, cytoplasm
from slideseek_apps.demo.histology.fields import ramp, sample
from slideseek_apps.demo.histology.tubes import pick_places, tubes, uniform

DUCT_CELL = Blob(6.6, 5.0, spread=0.10, stain=1.35)
LOBULAR_CYTOPLASM = Blob(11, 8.5, spread=0.12, rough=0.08, stain=0.9, rim=0.0, chromatin=0.1)


def ductal_carcinoma(rng: np.random.Generator, side: int) -> Canvas:
    """Paint ductal carcinoma: solid nests of large uneven nuclei in a fibrous stroma."""
    canvas, fibres, dense = _breast(rng, side)
    size = rng.uniform(44, 74)
    crowding = ramp(canvas.noise(380), rng.uniform(-1.6, -0.6), 0.8) * dense * (canvas.depth > 8)
    centres = scatter(rng, crowding, STEP, size * rng.uniform(2.0, 2.5))
    n = len(centres)
    radius = np.clip(size * np.exp(rng.normal(0, 0.38, n)), 20, 150).astype(np.float32)
    lengths = (radius * rng.gamma(1.2, 0.7, n)).astype(np.float32)
    angles = sample(fibres.angle, centres, STEP) + rng.normal(0, 0.5, n).astype(np.float32)
    nests = tubes(canvas, centres, radius, lengths, angles, bend=30, rugged=6.5)
    depth = np.minimum(nests.depth, canvas.depth - 3)
    inside = canvas.inside(depth)
    # Some nests have shrunk away from the stroma and have a narrow gap around them.
    gap = depth + 6 * ramp(canvas.noise(150), 0.7, 1.7)
    canvas.fade(ramp(canvas.full(gap), 0, 3) * (1 - inside), 0.9)
    cytoplasm(canvas, inside, rng.uniform(0.44, 0.62), rng.uniform(0.26, 0.38))
    holes = np.minimum(depth - 34, 16 * (canvas.noise(46) - np.float32(1.1) - np.float32(0.8) * nests.trait))
    canvas.fade(canvas.inside(holes), 0.92)

    grade = rng.uniform(0, 1)
    look = Blob(
        length=rng.uniform(8.6, 9.8) + 1.6 * grade,
        width=rng.uniform(7.0, 7.8) + 1.2 * grade,
        spread=0.15 + 0.12 * grade,
        rough=0.07,
        stain=rng.uniform(1.0, 1.25),
        rim=0.42,
        chromatin=0.26,
        nucleoli=0.4 + 0.4 * grade,
    )
    packed = np.float32(0.95) * ramp(depth, 3, 8) * (holes < -3)
    borders(canvas, depth > 0, canvas.add_cells(look, packed, rng.uniform(17.5, 20.5)), 0.5)
    stray = ramp(canvas.noise(260), 0.4, 1.8) * dense * ((depth < -8) & (canvas.depth > 10))
    canvas.add_cells(look, np.float32(rng.uniform(0.05, 0.25)) * stray, 26)
    canvas.finish()
    return canvas


def lobular_carcinoma(rng: np.random.Generator, side: int) -> Canvas:
    """Paint lobular carcinoma: small uniform cells in single file between the fibres."""
    canvas, fibres, dense = _breast(rng, side)
    pitch = np.float32(rng.uniform(44, 70))
    off_file = np.abs((fibres.across / pitch + np.float32(0.25) * canvas.noise(120)) % 1 - np.float32(0.5)) * pitch
    invaded = ramp(canvas.noise(240), rng.uniform(-1.6, -0.7), 1.0) * dense * (canvas.depth > 8)
    files = (off_file < 3.2) * np.sqrt(invaded) * ramp(canvas.noise(90), -1.0, 0.0)
    clusters = ramp(canvas.noise(110), 1.5, 2.1) * invaded * np.float32(rng.uniform(0.2, 0.8))
    look = Blob(
        length=rng.uniform(6.6, 7.6),
        width=rng.uniform(5.6, 6.3),
        spread=rng.uniform(0.09, 0.14),
        rough=0.05,
        stain=rng.uniform(1.15, 1.4),
        rim=0.18,
        chromatin=0.16,
        nucleoli=0.08,
    )
    xy = canvas.add_cells(look, files + clusters, 13.5, fibres.angle, 0.35)
    body = canvas.stamp(LOBULAR_CYTOPLASM, xy)
    canvas.eosin += body * (np.float32(0.42) - canvas.eosin)
    canvas.haematoxylin += body * (np.float32(0.24) - canvas.haematoxylin)
    canvas.finish()
    return canvas


def _breast(rng: np.random.Generator, side: int) -> tuple[Canvas, Fibres, Float32]:
    """Paint what both carcinomas share: fibrous stroma, fat, vessels, a few benign ducts.

    Returns the canvas, its fibres and the coarse mask (0..1) of the fibrous part.
    """
    canvas = Canvas.with_tissue(rng, side, fragment(rng, side, rng.uniform(0.44, 0.58), rng.uniform(1.0, 1.5)))
    fibres = weave(canvas, wave=80, thickness=5.5)
    tissue = ramp(canvas.depth, -2, 3)
    lobes = canvas.noise(480) + np.float32(0.25) * canvas.noise(110) + np.float32(0.05) * canvas.noise(30)
    level = float(np.quantile(lobes[canvas.depth > 0], 1 - rng.uniform(0.0, 0.28)))
    fatty = ramp(lobes, level - 0.03, level + 0.03) * tissue
    dense = tissue - fatty
    stroma(canvas, dense, fibres, rng.uniform(0.38, 0.56), rng.uniform(0.2, 0.4), rng.uniform(0.0, 0.4))
    fat(canvas, fatty)
    vessels(canvas, (dense > 0.9) & (canvas.depth > 50), int(rng.integers(3, 9)))
    _ducts(canvas, dense, int(rng.integers(0, 4)))
    return canvas, fibres, dense


def _ducts(canvas: Canvas, dense: Float32, count: int) -> None:
    """Put a few benign ducts into the fibrous part: two rows of small regular nuclei around a lumen."""
    centres = pick_places(canvas, (dense > 0.9) & (canvas.depth > 90), count)
    n = len(centres)
    if not n:
        return
    radius, half_length = uniform(canvas, 34, 60, n), uniform(canvas, 0, 70, n)
    ducts = tubes(canvas, centres, radius, half_length, uniform(canvas, 0, np.pi, n), bend=14, rugged=2.0)
    cytoplasm(canvas, canvas.inside(ducts.depth), 0.48, 0.24)
    canvas.fade(canvas.inside(ducts.depth - 26), 0.93)
    tangent = ducts.inward + np.float32(np.pi / 2)
    canvas.add_cells(DUCT_CELL, ramp(ducts.layer(7, 3), 0.3, 0.6), 10.5, tangent, 0.3)
    canvas.add_cells(DUCT_CELL, ramp(ducts.layer(18, 3), 0.3, 0.6), 11.5, ducts.inward, 0.3)
