"""What rerankers share: the nearest patch of each patch, found a block at a time, and one number from these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slideseek.interfaces import MeasuresSets, Reranker
from slideseek.types import Bag, Float32, Float64, UInt8
from slideseek_components.encoders.bags import finite_features
from slideseek_components.indexes.median_of_minima import DIRECTIONS, Direction

BLOCK_ROWS = 4096
"""Patches of each slide compared at a time: bounds the working memory, however many patches two slides have."""


@dataclass
class PatchPairs(Reranker, MeasuresSets, ABC):
    """Compare every patch of the query with every patch of a candidate; a subclass defines the distance of two patches
    and the middle of many.

    depth: how many of the nearest slides to compare; more than the hits asked for.

    direction: which patches the distance is taken over: `query`, each with its nearest patch of the candidate;
    `target`, the other way round; `symmetric`, the mean of both.
    """

    code_revision: ClassVar[int] = 1
    depth: int = field(default=100, metadata={"at_query": True})
    direction: Direction = field(default="query", metadata={"at_query": True})

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth: at least 1, not {self.depth}")
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction: one of {', '.join(DIRECTIONS)}, not {self.direction!r}")

    @abstractmethod
    def _rows(self, features: Float32) -> NDArray[Any]:
        """Return what is compared, one row per patch, from features, float32 (n, width)."""

    @abstractmethod
    def _between(self, query: NDArray[Any], target: NDArray[Any]) -> Float64:
        """Return the distances of rows made by `_rows`: float64 (n, m)."""

    @abstractmethod
    def _middle(self, nearest: Float64) -> float:
        """Return one number from the distance of each patch to its nearest, (n,); their order does not matter."""

    def row_distances(self, query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
        """Return the distance of every patch of the query to every patch of the other slide: float64 (n, m)."""
        return self._between(self._rows(np.asarray(query, np.float32)), self._rows(np.asarray(target, np.float32)))

    def set_distance(self, between: Float64) -> float:
        """Return the distance of two slides from that of their patches, float64 (query patches, target patches)."""
        return self._combined(between.min(axis=1), between.min(axis=0))

    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Float64:
        """Return the distance of each candidate, float64 (candidates,); they are read one at a time."""
        mine = self._rows(finite_features(query))
        found = np.empty(len(candidates))
        for number in range(len(candidates)):
            other = self._rows(finite_features(candidates[number], query.width))
            found[number] = self._combined(*self._nearest(mine, other))
        return found

    def _nearest(self, query: NDArray[Any], target: NDArray[Any]) -> tuple[Float64, Float64]:
        """Return the distance of each query row to its nearest target row (n,), and the other way round (m,)."""
        forth, back = np.full(len(query), np.inf), np.full(len(target), np.inf)
        for first in range(0, len(query), BLOCK_ROWS):
            mine = slice(first, first + BLOCK_ROWS)
            for start in range(0, len(target), BLOCK_ROWS):
                other = slice(start, start + BLOCK_ROWS)
                between = self._between(query[mine], target[other])
                forth[mine] = np.minimum(forth[mine], between.min(axis=1))
                back[other] = np.minimum(back[other], between.min(axis=0))
        return forth, back

    def _combined(self, forth: Float64, back: Float64) -> float:
        """Return the distance in this direction from the nearest distances of both sides."""
        if self.direction == "query":
            return self._middle(forth)
        if self.direction == "target":
            return self._middle(back)
        return (self._middle(forth) + self._middle(back)) / 2
