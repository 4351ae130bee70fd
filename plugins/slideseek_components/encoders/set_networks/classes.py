"""What a network over sets learns to tell apart: the labels of slides, their sites, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.types import Int64
from slideseek_components.encoders.projection.options import By

UNKNOWN = -1
"""The class of a slide that has none."""


@dataclass(frozen=True)
class Classes:
    """The class of every slide, for each head. counts: classes of each head. numbers: int64 (slides, heads)."""

    counts: tuple[int, ...]
    numbers: Int64

    @classmethod
    def of(cls, labels: Sequence[str], sites: Sequence[str], by: By, name: str) -> Classes:
        """Number the classes. A head with fewer than two classes is left out; raise an error if none is left.

        name: the encoder, for the message.
        """
        given = {"label": labels, "site": sites}
        counts, numbers = [], []
        for values in given.values() if by == "both" else (given[by],):
            names = sorted(set(values) - {""})
            if len(names) >= 2:
                place = {value: i for i, value in enumerate(names)}
                counts.append(len(names))
                numbers.append([place.get(value, UNKNOWN) for value in values])
        if not counts:
            what = {"label": "labels", "site": "sites", "both": "labels or sites"}[by]
            raise SlideseekError(
                f"{name} learns to tell slides apart by their {what}, and the training slides have fewer than two",
                "add slides with another label, or use an encoder that needs none, such as gmm-fv or prototypes",
            )
        return cls(tuple(counts), np.array(numbers, dtype=np.int64).T)

    def known(self) -> Int64:
        """Return the numbers of the slides that have a class in at least one head."""
        return np.flatnonzero((self.numbers != UNKNOWN).any(axis=1))
