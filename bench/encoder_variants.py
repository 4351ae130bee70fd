"""Ways to read trained deep-sbfv networks that were tried beside the presets: several networks, rotations, whitening.

They are rows of `python -m bench.encoders --variants`, there to be judged, and no plugins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.normalise import signed_root, unit

_TURNS = 50
"""Iterations of ITQ; it settles long before."""


@dataclass
class Joined:
    """The codes of several networks side by side. The first trains in the folder itself, the others below it."""

    members: Sequence[DeepSparseBinaryFisherVector]

    def spec(self, width: int) -> CodeSpec:
        """Return the sum of the members' bits."""
        return CodeSpec("bits", sum(member.spec(width).width for member in self.members))

    def fit_in(self, folder: Path, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Fit every member on the same slides."""
        for number, member in enumerate(self.members):
            own = folder / f"member-{number}" if number else folder
            own.mkdir(exist_ok=True)
            member.fit_in(own, bags, labels, groups)

    def encode(self, bag: Bag) -> Code:
        """Return one row of all bits."""
        rows = [np.unpackbits(m.encode(bag).rows[0], count=m.spec(bag.width).width) for m in self.members]
        return Code(bag.slide_id, np.packbits(np.concatenate(rows))[None])


@dataclass
class Projected:
    """The values a network's bits are the signs of, projected on the main directions of the training slides.

    The values of n training slides (signed root, unit length, centred) lie in n - 1 dimensions. A code has `share` of
    these, the ones of most variance: with all of them, whitened training slides would be equally far from each other.
    whiten: float codes of equal variance in each dimension, else bits after the rotation of iterative quantisation.
    """

    network: DeepSparseBinaryFisherVector
    whiten: bool = False
    share: float = 0.5
    seed: int = 0
    centre_: Float64 = field(init=False, default_factory=lambda: np.zeros(0))
    axes_: Float64 = field(init=False, default_factory=lambda: np.zeros((0, 0)))

    def spec(self, width: int) -> CodeSpec:
        """Return the dimensions there are, which only a fit says; an error where the network has too few entries."""
        self.network.spec(width)
        return CodeSpec("float" if self.whiten else "bits", self.axes_.shape[1])

    def fit_in(self, folder: Path, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Fit the network, then learn the projection from the values of the training slides."""
        self.network.fit_in(folder, bags, labels, groups)
        values = np.stack([self._values(bag) for bag in bags])
        self.centre_ = values.mean(axis=0)
        _, spread, axes = np.linalg.svd(values - self.centre_, full_matrices=False)
        count = max(1, round(self.share * (len(bags) - 1)))
        self.axes_ = axes[:count].T / (spread[:count] if self.whiten else 1.0)
        if not self.whiten:
            self.axes_ = self.axes_ @ itq((values - self.centre_) @ self.axes_, self.seed)

    def encode(self, bag: Bag) -> Code:
        """Return the projected values, or their signs."""
        found = (self._values(bag) - self.centre_) @ self.axes_
        return Code(bag.slide_id, found.astype(np.float32)[None] if self.whiten else np.packbits(found > 0)[None])

    def _values(self, bag: Bag) -> Float64:
        model = self.network.model_
        if model is None:
            raise ValueError("fit first")
        return unit(signed_root(self.network.gradient(bag)[model.kept[""].chosen]))


def itq(values: Float64, seed: int) -> Float64:
    """Return the rotation (d, d) that brings `values` (n, d), centred, nearest to the corners of the cube.

    Gong and Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes".
    """
    d = values.shape[1]
    rotation: Float64 = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    for _ in range(_TURNS):
        corners = np.where(values @ rotation > 0, 1.0, -1.0)
        left, _, right = np.linalg.svd(values.T @ corners)
        rotation = left @ right
    return rotation
