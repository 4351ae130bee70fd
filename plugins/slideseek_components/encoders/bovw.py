"""Bag of visual words."""

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
class Bovw(Codebook, Attributable):
    """Count which visual word each patch is nearest to (Csurka et al., 2004): the share of patches per word."""

    name: ClassVar[str] = "bovw"

    def spec(self, width: int) -> CodeSpec:
        """Return one row of `words` floats."""
        return CodeSpec("float", self.words)

    def encode(self, bag: Bag) -> Code:
        """Return the histogram as float32 (1, words)."""
        return self._code(bag, self._histogram(bag))

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the cosine of the bag's code and `code` over the patches; see `Attributable`."""
        histogram = self._histogram(bag)
        towards = directions(bag, self._code(bag, histogram), histogram, code)
        parts = np.empty(len(bag))
        for rows, chunk in canonical_chunks(bag.features):
            parts[rows] = towards[self.nearest(chunk)[1]] / len(bag)
        return parts

    def _histogram(self, bag: Bag) -> Float64:
        counts = np.zeros(self.words)
        for _, chunk in canonical_chunks(finite_features(bag, self.width)):
            counts += np.bincount(self.nearest(chunk)[1], minlength=self.words)
        return counts / len(bag)

    def _code(self, bag: Bag, histogram: Float64) -> Code:
        row = signed_root(histogram) if self.power else histogram
        return Code(bag.slide_id, (unit(row) if self.l2 else row).astype(np.float32)[None])
