"""Vectors of whole slides that another tool computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.interfaces import Attributable
from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.attribution import directions
from slideseek_components.encoders.bags import finite_features


@dataclass
class Imported(Attributable):
    """Take the one vector of a slide, such as TITAN, PRISM or CHIEF computes, as its code, unchanged.

    'slideseek import' stores such a vector as a bag of one row. Vectors by several encoders can be imported side by
    side; `joined` then combines parts of them, each with the same say.

    start: first value of the vector to use. length: number of values, 0 for all that follow.
    """

    code_revision: ClassVar[int] = 1

    start: int = 0
    length: int = 0

    def __post_init__(self) -> None:
        if self.start < 0 or self.length < 0:
            raise ValueError(f"start, length: must be 0 or more, not {self.start} and {self.length}")

    def spec(self, width: int) -> CodeSpec:
        """Return one row with the floats of the part."""
        end = self._end(width)
        if not self.start < end <= width:
            raise ValueError(f"start, length: the part must lie in a vector of {width} values, not end at {end}")
        return CodeSpec("float", end - self.start)

    def encode(self, bag: Bag) -> Code:
        """Return the part of the bag's only row as float32 (1, width of the part)."""
        row = finite_features(bag)
        if len(row) != 1:
            raise SlideseekError(
                f"slide {bag.slide_id!r} has features of {len(row)} patches, not one vector for the whole slide",
                "use an encoder of patches, such as 'mean', or import vectors of whole slides",
            )
        self.spec(bag.width)
        return Code(bag.slide_id, row[:, self.start : self._end(bag.width)].copy())

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Return the cosine of the bag's code and `code`: all of it belongs to the one row."""
        mine = self.encode(bag)
        row = mine.rows[0].astype(np.float64)
        return np.array([float((row * directions(bag, mine, row, code)).sum())])

    def _end(self, width: int) -> int:
        return self.start + self.length if self.length else width
