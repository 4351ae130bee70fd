"""Turn coordinates into bits: their signs, the sides of random hyperplanes, or learnt rotations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slideseek.types import Float64
from slideseek_components.encoders.projection.options import Binarise

_SHORTEST = 256
"""Least length of a transform: shorter ones have too few different planes."""

_ROUNDS = 3

_TURNS = 10


@dataclass
class Binariser:
    """Bits of coordinates (d,): a bit is 1 where the coordinate along its direction is above 0.

    sign: the directions are the axes, most important first; bits beyond d are 0. hyperplanes: `bits` random directions,
    so the share of equal bits tells the angle between two codes (Charikar, STOC 2002). They are the rows of three
    rounds of random signs and a Hadamard transform (Choromanski, Rowland, Weller, "The unreasonable effectiveness of
    structured random orthogonal embeddings", NeurIPS 2017): at right angles to each other, which is more even than
    independent ones, taken in a millisecond for thousands of coordinates, and they follow from the seed. itq: rotations
    that bring training slides near the corners of a cube (Gong and Lazebnik, "Iterative quantization", CVPR 2011), one
    per d bits, each from its own random start.

    rotation: float64 (bits, d), learnt, for itq.
    """

    kind: Binarise
    bits: int
    dimensions: int
    seed: int
    rotation: Float64 = field(default_factory=lambda: np.zeros((0, 0)))
    _signs: list[Float64] = field(init=False, repr=False, compare=False, default_factory=list)

    def learn(self, coordinates: Float64) -> None:
        """Learn rotations from training slides (n, d) of unit length; does nothing for the other kinds."""
        if self.kind == "itq":
            rotations = -(-self.bits // self.dimensions)
            found = [_itq(coordinates, self.seed, i) for i in range(rotations)]
            self.rotation = np.concatenate(found, axis=1).T[: self.bits].copy()

    def values(self, coordinates: Float64) -> Float64:
        """Return float64 (bits,), whose signs are the bits of one slide's coordinates (d,)."""
        if self.kind == "itq":
            return self.rotation @ coordinates
        if self.kind == "sign":
            return _padded(coordinates[: self.bits], self.bits)
        blocks = [self._turned(coordinates, block) for block in range(-(-self.bits // self._length))]
        return np.concatenate(blocks)[: self.bits]

    def pull_back(self, weights: Float64) -> Float64:
        """Return float64 (d,) w with w . coordinates = weights (bits,) . values(coordinates)."""
        if self.kind == "itq":
            return weights @ self.rotation
        if self.kind == "sign":
            return _padded(weights[: self.dimensions], self.dimensions)
        total, size = np.zeros(self.dimensions), self._length
        for block in range(-(-self.bits // size)):
            y = _padded(weights[block * size : (block + 1) * size], size)
            for signs in self._signs_of(block)[::-1]:
                y = _hadamard(y) * signs
            total += y[: self.dimensions]
        return total

    @property
    def _length(self) -> int:
        """The length of a transform: a power of two that has room for the coordinates."""
        return max(_SHORTEST, 1 << (self.dimensions - 1).bit_length())

    def _turned(self, coordinates: Float64, block: int) -> Float64:
        y = _padded(coordinates, self._length)
        for signs in self._signs_of(block):
            y = _hadamard(y * signs)
        return y

    def _signs_of(self, block: int) -> Float64:
        """Return the random signs of a block of planes, -1 or 1: float64 (rounds, length)."""
        while len(self._signs) <= block:
            rng = np.random.default_rng([self.seed, 0xB175, len(self._signs)])
            self._signs.append(rng.choice(np.array([-1.0, 1.0]), size=(_ROUNDS, self._length)))
        return self._signs[block]


def _padded(values: Float64, size: int) -> Float64:
    """Return `values` with zeros behind: float64 (size,)."""
    whole = np.zeros(size)
    whole[: len(values)] = values
    return whole


def _hadamard(values: Float64) -> Float64:
    """Return the orthonormal Hadamard transform of float64 (n,), n a power of two: sums and differences only."""
    n, half = len(values), 1
    while half < n:
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(n)
        half *= 2
    return values / math.sqrt(n)


def _itq(coordinates: Float64, seed: int, number: int) -> Float64:
    d = coordinates.shape[1]
    rotation: Float64 = np.linalg.qr(np.random.default_rng([seed, 0x170, number]).standard_normal((d, d)))[0]
    for _ in range(_TURNS):
        corners = np.where(coordinates @ rotation > 0, 1.0, -1.0)
        left, _, right = np.linalg.svd(coordinates.T @ corners)
        rotation = left @ right
    return rotation
