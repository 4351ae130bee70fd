"""What goes through the network in one pass: patches of some slides, below each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from slideseek.types import Float32, Int64


@dataclass(frozen=True)
class Chunk:
    """Patches of one slide that go through the network together.

    slide: its number among the jobs. features: all of the slide's, (n, width). rows: int64 (m,), which are meant. site:
    the number of its site. count: a patch weighs 1 / count.
    """

    slide: int
    features: Float32
    rows: Int64
    site: int
    count: int


@dataclass(frozen=True)
class Load:
    """What goes through the network in one pass of n rows.

    parts: the first row, the features of a slide, and which rows of them follow. site: (n, sites), one-hot. factor:
    (n, 1), as `Pass` takes it.
    """

    parts: Sequence[tuple[int, Float32, Int64]]
    site: Tensor
    factor: Tensor

    def rows(self, start: int, stop: int) -> Float32:
        """Return the raw features of rows `start` to `stop`."""
        found = []
        for first, features, rows in self.parts:
            own = rows[max(start - first, 0) : max(stop - first, 0)]
            if len(own):
                found.append(features[own])
        return found[0] if len(found) == 1 else np.concatenate(found)
