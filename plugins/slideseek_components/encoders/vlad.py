"""Vector of locally aggregated descriptors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.interfaces import Attributable
from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.attribution import directions
from slideseek_components.encoders.bags import canonical_chunks, finite_features
from slideseek_components.encoders.codebook import Codebook
from slideseek_components.encoders.normalise import signed_root, unit


@dataclass
class Vlad(Codebook, Attributable):
    """Sum the differences between patches and their nearest visual word, per word (Jégou et al., CVPR 2010).

    intra: first give every word's part unit length, so frequent words do not dominate.
    """

    intra: bool = True

    name: ClassVar[str] = "vlad"

    def spec(self, width: int) -> CodeSpec:
        """Return one row of `words * width` floats."""
        return CodeSpec("float", self.words * width)

    def encode(self, bag: Bag) -> Code:
        """Return the residual sums as float32 (1, words * width), with the same bits for any patch order."""
        return self._code(bag, self._residuals(bag))

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the cosine of the bag's code and `code` over the patches; see `Attributable`."""
        residuals = self._residuals(bag)
        towards = directions(bag, self._code(bag, residuals), residuals.ravel(), code).reshape(residuals.shape)
        parts = np.empty(len(bag))
        for rows, chunk in canonical_chunks(bag.features):
            y, word = self.nearest(chunk)
            parts[rows] = ((y - self.centres_[word]) * towards[word]).sum(axis=1) / len(bag)
        return parts

    def _residuals(self, bag: Bag) -> Float64:
        features = finite_features(bag, self.width)
        total = np.zeros_like(self.centres_)
        for _, chunk in canonical_chunks(features):
            y, word = self.nearest(chunk)
            np.add.at(total, word, y - self.centres_[word])
        return total / len(bag)

    def _code(self, bag: Bag, residuals: Float64) -> Code:
        rows = signed_root(residuals) if self.power else residuals
        if self.intra:
            rows = np.stack([unit(row) for row in rows])
        row = rows.ravel()
        return Code(bag.slide_id, (unit(row) if self.l2 else row).astype(np.float32)[None])
