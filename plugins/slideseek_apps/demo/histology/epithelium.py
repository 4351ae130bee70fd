"""Epithelium: the cytoplasm of adjacent cells, and the borders between them."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from slideseek.types import Float32, Mask
from slideseek_apps.demo.histology.canvas import STEP, Canvas
from slideseek_apps.demo.histology.fields import grid


def cytoplasm(canvas: Canvas, where: Float32, eosin: float, haematoxylin: float) -> None:
    """Replace the content of the full-resolution mask `where` (0..1) with granular cytoplasm of two concentrations."""
    canvas.clear(where)
    texture = canvas.grain + canvas.full(canvas.noise(55))
    texture *= where
    canvas.eosin += np.float32(eosin) * (where + np.float32(0.12) * texture)
    canvas.haematoxylin += np.float32(haematoxylin) * (where + np.float32(0.18) * texture)


def borders(canvas: Canvas, where: Mask, nuclei: Float32, strength: float) -> None:
    """Draw the borders between cells in the coarse mask `where`: pixels equally far from two nuclei (n, 2)."""
    rows, columns = np.nonzero(where)
    if len(nuclei) < 2 or not len(rows):
        return
    x, y = grid(canvas.small, STEP)
    distance, _ = cKDTree(nuclei).query(np.stack([x[rows, columns], y[rows, columns]], axis=1), k=2)
    line = np.zeros_like(canvas.depth)
    line[rows, columns] = np.exp(-(((distance[:, 1] - distance[:, 0]) / 4.0) ** 2)) - 0.25
    canvas.eosin *= 1 + np.float32(strength) * canvas.full(line)
