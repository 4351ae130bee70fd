"""Turn coordinates into bits: their signs, the sides of random hyperplanes, or learnt rotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from slideseek.types import Float64
from slideseek_components.encoders.projection.options import Binarise

_BLOCK = 64
"""Planes drawn from one seed. Not an option: another value would change the planes."""

_HELD = 2**25
"""Values of planes held in memory (256 MiB); more are drawn again for every slide."""

_TURNS = 30


@dataclass
class Binariser:
    """Bits of coordinates (d,): a bit is 1 where the coordinate along its direction is above 0.

    sign: the directions are the axes, most important first; bits beyond d are 0. hyperplanes: `bits` random directions,
    so the share of equal bits tells the angle between two codes (Charikar, STOC 2002); they follow from the seed and
    are never stored. itq: rotations that bring training slides near the corners of a cube (Gong and Lazebnik,
    "Iterative quantization", CVPR 2011), one per d bits, each from its own random start.

    rotation: float64 (bits, d), learnt, for itq.
    """

    kind: Binarise
    bits: int
    dimensions: int
    seed: int
    rotation: Float64 = field(default_factory=lambda: np.zeros((0, 0)))
    _held: list[Float64] = field(init=False, repr=False, compare=False, default_factory=list)

    def learn(self, coordinates: Float64) -> None:
        """Learn rotations from training slides (n, d) of unit length; does nothing for the other kinds."""
        if self.kind == "itq":
            rotations = -(-self.bits // self.dimensions)
            found = [_itq(coordinates, self.seed, i) for i in range(rotations)]
            self.rotation = np.concatenate(found, axis=1).T[: self.bits].copy()

    def values(self, coordinates: Float64) -> Float64:
        """Return float64 (bits,), whose signs are the bits of one slide's coordinates (d,)."""
        return np.concatenate([directions @ coordinates for directions in self._directions()])

    def pull_back(self, weights: Float64) -> Float64:
        """Return float64 (d,) w with w . coordinates = weights (bits,) . values(coordinates)."""
        total, start = np.zeros(self.dimensions), 0
        for directions in self._directions():
            total += weights[start : start + len(directions)] @ directions
            start += len(directions)
        return total

    def _directions(self) -> Iterator[Float64]:
        """Yield the directions of the bits, float64 (m, d), in blocks of a fixed size."""
        if self.kind == "itq":
            yield self.rotation
        elif self.kind == "sign":
            yield np.eye(self.bits, self.dimensions)
        elif self.bits * self.dimensions <= _HELD:
            if not self._held:
                self._held = [np.concatenate(list(self._planes()))]
            yield self._held[0]
        else:
            yield from self._planes()

    def _planes(self) -> Iterator[Float64]:
        for block in range(-(-self.bits // _BLOCK)):
            rng = np.random.default_rng([self.seed, 0xB175, block])
            yield rng.standard_normal((_BLOCK, self.dimensions))[: self.bits - block * _BLOCK]


def _itq(coordinates: Float64, seed: int, number: int) -> Float64:
    d = coordinates.shape[1]
    rotation: Float64 = np.linalg.qr(np.random.default_rng([seed, 0x170, number]).standard_normal((d, d)))[0]
    for _ in range(_TURNS):
        corners = np.where(coordinates @ rotation > 0, 1.0, -1.0)
        left, _, right = np.linalg.svd(coordinates.T @ corners)
        rotation = left @ right
    return rotation
