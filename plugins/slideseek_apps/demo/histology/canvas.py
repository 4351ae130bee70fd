"""The canvas: the concentrations of haematoxylin and eosin at every pixel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import ndimage

from slideseek.types import Float32
from slideseek_apps.demo.histology.cells import Blob, Stamper, scatter
from slideseek_apps.demo.histology.fields import enlarge, grid, ramp, sample, smooth_noise

STEP = 4
"""Side in pixels of a cell of the coarse fields that describe shapes; textures and nuclei are drawn at full size."""


@dataclass(slots=True)
class Canvas:
    """Concentrations on a square piece of glass of `side` pixels of 0.5 µm.

    depth: (small, small), distance in pixels to the edge of the tissue, negative outside; cells of STEP pixels.
    haematoxylin, eosin: (side, side), without the nuclei until `finish` adds them.
    nuclei, cover: (side, side), haematoxylin of the nuclei and the share of a pixel they fill.
    grain: (side, side), fine noise of about unit variance that every tissue shares.
    """

    rng: np.random.Generator
    side: int
    depth: Float32
    haematoxylin: Float32
    eosin: Float32
    nuclei: Float32
    cover: Float32
    grain: Float32
    stamper: Stamper = field(repr=False)

    @classmethod
    def with_tissue(cls, rng: np.random.Generator, side: int, depth: Float32) -> Canvas:
        """Start with an unstained piece of tissue."""
        haematoxylin, eosin, nuclei, cover = np.zeros((4, side, side), dtype=np.float32)
        grain = smooth_noise(rng, side, 2.6)
        return cls(rng, side, depth, haematoxylin, eosin, nuclei, cover, grain, Stamper(rng, side))

    @property
    def small(self) -> int:
        """Side of the coarse fields."""
        return len(self.depth)

    def noise(self, grain: float) -> Float32:
        """Draw a coarse random field whose features are `grain` full-resolution pixels wide."""
        return smooth_noise(self.rng, self.small, grain / STEP)

    def full(self, coarse: Float32) -> Float32:
        """Enlarge a coarse field to full resolution."""
        return enlarge(coarse, self.side)

    def inside(self, depth: Float32) -> Float32:
        """Return the soft full-resolution mask of the pixels where a coarse depth field is positive."""
        return ramp(self.full(depth), -1.2, 1.2)

    def clear(self, where: Float32) -> None:
        """Erase everything painted so far in the full-resolution mask `where` (0..1)."""
        keep = 1 - where
        for stain in (self.haematoxylin, self.eosin, self.nuclei, self.cover):
            stain *= keep

    def fade(self, where: Float32, share: float) -> None:
        """Remove `share` of both stains in the full-resolution mask `where` (0..1); nuclei stay."""
        keep = 1 - np.float32(share) * where
        self.haematoxylin *= keep
        self.eosin *= keep

    def add_cells(
        self, look: Blob, density: Float32, spacing: float, angle: Float32 | None = None, wobble: float = 0.3
    ) -> Float32:
        """Scatter nuclei where the coarse `density` (0..1) allows and return their centres (n, 2).

        spacing: least distance in pixels. angle: coarse field with the direction of the long axis, random when
        left out. wobble: scatter of that direction in radians.
        """
        xy = scatter(self.rng, density, STEP, spacing)
        turn = self._directions(len(xy)) if angle is None else self._around(sample(angle, xy, STEP), wobble)
        self.stamper.draw(look, xy, turn, self.cover, self.nuclei)
        return xy

    def stamp(self, look: Blob, xy: Float32, angle: Float32 | None = None) -> Float32:
        """Return the (side, side) concentration of blobs at `xy` that are not nuclei, without painting them."""
        cover, stain = np.zeros((2, self.side, self.side), dtype=np.float32)
        self.stamper.draw(look, xy, self._directions(len(xy)) if angle is None else angle, cover, stain)
        return stain

    def finish(self) -> None:
        """Clip at the edge of the tissue and draw the nuclei, which contain little eosin, on top."""
        self.clear(1 - self.inside(self.depth))
        self.eosin *= 1 - np.float32(0.55) * self.cover
        np.maximum(self.haematoxylin * (1 - self.cover), self.nuclei, out=self.haematoxylin)

    def _directions(self, n: int) -> Float32:
        return self.rng.uniform(0, np.pi, n).astype(np.float32)

    def _around(self, angle: Float32, wobble: float) -> Float32:
        return angle + self.rng.normal(0, wobble, len(angle)).astype(np.float32)


def fragment(rng: np.random.Generator, side: int, share: float, slender: float) -> Float32:
    """Cut an irregular piece of tissue that covers `share` of the glass; return its coarse depth field.

    slender: length divided by width of the piece.
    """
    small = side // STEP
    x, y = grid(small, STEP)
    turn = rng.uniform(0, np.pi)
    dx, dy = x / side - 0.5 + rng.normal(0, 0.02), y / side - 0.5 + rng.normal(0, 0.02)
    u, v = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
    # A round piece with bumps of several sizes; the steep power keeps it off the edge of the glass.
    frame = np.maximum(np.abs(x / side - 0.5), np.abs(y / side - 0.5)) / 0.47
    height = -np.hypot(u / np.sqrt(slender), v * np.sqrt(slender)) - 0.3 * frame**8
    for parts, weight in ((3.2, 0.10), (8, 0.050), (28, 0.014), (70, 0.005)):
        height = height + weight * smooth_noise(rng, small, max(small / parts, 2.5))
    inside = ndimage.binary_fill_holes(height > np.quantile(height, 1 - share))
    distance = ndimage.distance_transform_edt(inside) - ndimage.distance_transform_edt(~inside)
    return np.asarray(ndimage.gaussian_filter(distance, 0.8) * STEP, dtype=np.float32)
