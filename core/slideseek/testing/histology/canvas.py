"""The canvas: how much haematoxylin and eosin lies on every pixel, before the light goes through."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import ndimage

from slideseek.testing.histology.cells import Nucleus, Stamper, scatter
from slideseek.testing.histology.fields import enlarge, grid, look_up, ramp, sample, smooth_noise
from slideseek.types import Float32

STEP = 4
"""Side in pixels of a cell of the coarse fields that hold shapes; textures and nuclei are drawn at full size."""

FIBROBLAST = Nucleus(11.0, 2.3, spread=0.25, rough=0.10, stain=1.25, rim=0.05)
LYMPHOCYTE = Nucleus(5.6, 5.2, spread=0.08, stain=1.75, chromatin=0.12)
PLASMA = Nucleus(6.4, 5.4, spread=0.10, stain=1.4, chromatin=0.3)
ERYTHROCYTE = Nucleus(6.4, 5.8, spread=0.08, stain=1.0, rim=0.3, chromatin=0.03)


@dataclass(slots=True)
class Canvas:
    """Concentrations on a square piece of glass of `side` pixels of 0.5 µm.

    depth: (small, small), distance in pixels to the edge of the tissue, negative outside. Cells of STEP pixels.
    nuclei, cover: (side, side), haematoxylin of the nuclei and the share of a pixel they fill.
    """

    rng: np.random.Generator
    side: int
    depth: Float32
    haematoxylin: Float32
    eosin: Float32
    nuclei: Float32
    cover: Float32
    stamper: Stamper = field(repr=False)

    @classmethod
    def with_tissue(cls, rng: np.random.Generator, side: int, depth: Float32) -> Canvas:
        """Start an unstained piece of tissue."""
        blank = [np.zeros((side, side), dtype=np.float32) for _ in range(4)]
        return cls(rng, side, depth, *blank, Stamper(rng, side))

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

    def add_cells(
        self, look: Nucleus, density: Float32, spacing: float, angle: Float32 | None = None, wobble: float = 0.3
    ) -> Float32:
        """Scatter nuclei where the coarse `density` allows and return their centres (n, 2).

        angle: coarse field with the direction of the long axis; random when left out. wobble: its scatter.
        """
        xy = scatter(self.rng, density, STEP, spacing)
        if angle is None:
            turn = self.rng.uniform(0, np.pi, len(xy)).astype(np.float32)
        else:
            turn = sample(angle, xy, STEP) + self.rng.normal(0, wobble, len(xy)).astype(np.float32)
        self.stamper.draw(look, xy, turn, self.cover, self.nuclei)
        return xy

    def stamp(self, look: Nucleus, xy: Float32, angle: Float32 | None = None) -> Float32:
        """Return the (side, side) cover of soft ellipses at `xy` that are not nuclei: vacuoles, red cells."""
        cover, tone = np.zeros_like(self.eosin), np.zeros_like(self.eosin)
        turn = self.rng.uniform(0, np.pi, len(xy)).astype(np.float32) if angle is None else angle
        self.stamper.draw(look, xy, turn, cover, tone)
        return tone

    def finish(self) -> None:
        """Lay the nuclei over the rest: a nucleus holds little eosin."""
        self.eosin *= 1 - np.float32(0.55) * self.cover
        np.maximum(self.haematoxylin * (1 - self.cover), self.nuclei, out=self.haematoxylin)


def fragment(rng: np.random.Generator, side: int, share: float, slender: float = 1.0) -> Float32:
    """Cut an irregular piece of tissue that covers `share` of the glass; return its coarse depth field.

    slender: length divided by width of the piece.
    """
    small = side // STEP
    x, y = grid(small, STEP)
    turn = rng.uniform(0, np.pi)
    dx, dy = x / side - 0.5 + rng.normal(0, 0.02), y / side - 0.5 + rng.normal(0, 0.02)
    u, v = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
    stretch = np.sqrt(slender)
    # A round piece with bumps of several sizes; the steep power keeps it off the edge of the glass.
    radius = np.sqrt((u / stretch) ** 2 + (v * stretch) ** 2)
    frame = np.maximum(np.abs(x / side - 0.5), np.abs(y / side - 0.5)) / 0.47
    height = -radius - 0.3 * frame**8
    for grain, weight in ((small / 3.2, 0.10), (small / 8, 0.050), (small / 28, 0.014), (small / 70, 0.005)):
        height = height + weight * smooth_noise(rng, small, max(grain, 2.5))
    inside = height > np.quantile(height, 1 - share)
    inside = ndimage.binary_fill_holes(inside)
    distance = ndimage.distance_transform_edt(inside) - ndimage.distance_transform_edt(~inside)
    return np.asarray(ndimage.gaussian_filter(distance, 0.8) * STEP, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Fibres:
    """Wavy bundles of collagen or muscle. texture: (side, side), about unit variance. angle: coarse direction.

    across: coarse coordinate that counts pixels from bundle to bundle.
    """

    texture: Float32
    angle: Float32
    across: Float32


def weave(canvas: Canvas, wave: float = 70.0, thickness: float = 5.0, turn: float | None = None) -> Fibres:
    """Weave fibres: stripes seen through a smooth deformation of `wave` pixels."""
    rng, side = canvas.rng, canvas.side
    half = side // 2
    turn = rng.uniform(0, np.pi) if turn is None else turn
    bend = [wave * canvas.noise(360) + 0.22 * wave * canvas.noise(90) for _ in range(2)]
    x, y = grid(canvas.small, STEP)
    along = (x + bend[0]) * np.float32(np.cos(turn)) + (y + bend[1]) * np.float32(np.sin(turn))
    across = (y + bend[1]) * np.float32(np.cos(turn)) - (x + bend[0]) * np.float32(np.sin(turn))
    slope_y, slope_x = np.gradient(across)
    angle = np.arctan2(slope_y, slope_x) + np.float32(np.pi / 2)
    stripes = smooth_noise(rng, 1024, 90, 2.4 * thickness)
    stripes += np.float32(0.8) * smooth_noise(rng, 1024, 55, thickness) + np.float32(0.55) * smooth_noise(
        rng, 1024, 24, 2
    )
    texture = look_up(stripes / np.float32(1.4), enlarge(along, half), enlarge(across, half))
    return Fibres(enlarge(texture, side), angle.astype(np.float32), across.astype(np.float32))


def stroma(canvas: Canvas, where: Float32, fibres: Fibres, eosin: float, cells: float, inflammation: float) -> None:
    """Fill the coarse region `where` (0..1) with connective tissue.

    eosin: mean concentration. cells: density of fibroblasts. inflammation: density of lymphocytes, in patches.
    """
    rng, weight = canvas.rng, canvas.full(where)
    loose = canvas.full(canvas.noise(220))
    pink = np.float32(eosin) * (1 + 0.30 * fibres.texture - 0.14 * loose)
    # Clefts: thin gaps between bundles, more of them where the tissue is loose.
    weight *= 1 - np.float32(0.9) * ramp(np.float32(0.5) * loose - fibres.texture, 1.3, 1.9)
    pink += np.float32(0.05 * eosin) * rng.standard_normal(pink.shape, dtype=np.float32)
    canvas.eosin += weight * np.clip(pink, 0.02, None)
    canvas.haematoxylin += weight * np.float32(0.2) * np.clip(pink, 0.1, None)
    solid = (where > 0.6).astype(np.float32)
    canvas.add_cells(FIBROBLAST, solid * np.float32(cells) * ramp(canvas.noise(160), -2.0, 1.5), 17, fibres.angle, 0.25)
    if inflammation > 0:
        patches = np.clip(inflammation * ramp(canvas.noise(200), 0.2, 1.9) + 0.04 * inflammation, 0, 1)
        canvas.add_cells(LYMPHOCYTE, solid * patches.astype(np.float32), 11.5)


def vessels(canvas: Canvas, where: Float32, count: int) -> None:
    """Cut small vessels with red cells into the coarse region `where`."""
    rows, columns = np.nonzero(where > 0.9)
    if not len(rows):
        return
    pick = canvas.rng.choice(len(rows), min(count, len(rows)), replace=False)
    centres = np.stack([columns[pick], rows[pick]], axis=1).astype(np.float32) * STEP
    x, y = grid(canvas.small, STEP)
    bend_x, bend_y = 6 * canvas.noise(50), 6 * canvas.noise(50)
    depth = np.full((canvas.small, canvas.small), -1e3, dtype=np.float32)
    for cx, cy in centres:
        turn, long, wide = canvas.rng.uniform(0, np.pi), canvas.rng.uniform(12, 40), canvas.rng.uniform(8, 20)
        dx, dy = x + bend_x - cx, y + bend_y - cy
        u, v = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
        np.maximum(depth, wide * (1 - np.sqrt((u / long) ** 2 + (v / wide) ** 2)), out=depth)
    depth = depth.astype(np.float32)
    hollow = ramp(canvas.full(depth), -1, 1.5)
    canvas.eosin *= 1 - 0.95 * hollow
    canvas.haematoxylin *= 1 - 0.95 * hollow
    canvas.nuclei *= 1 - hollow
    canvas.cover *= 1 - hollow
    red = scatter(canvas.rng, 0.75 * (depth > 3).astype(np.float32), STEP, 10.5)
    canvas.eosin += 1.15 * canvas.stamp(ERYTHROCYTE, red)
    wall = np.exp(-(((depth + 4) / 3) ** 2)).astype(np.float32)
    canvas.eosin += 0.35 * canvas.full(wall)
    slope_y, slope_x = np.gradient(depth)
    tangent = (np.arctan2(slope_y, slope_x) + np.pi / 2).astype(np.float32)
    canvas.add_cells(FIBROBLAST, (np.abs(depth + 3) < 3).astype(np.float32) * 0.5, 20, tangent, 0.1)
