"""Re-rank by the mean cosine of each patch and its most similar patch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from slideseek.types import Float32, Float64
from slideseek_components.indexes.cosine import cosine_distances

from .patch_pairs import PatchPairs


@dataclass
class SetCosine(PatchPairs):
    """Order the nearest slides by an exact cosine on sets of patches.

    The distance of a query with patches q and a candidate with patches c, all of them features, is
    `1 - mean over q of (max over c of cos(q, c))`, in [0, 2]: 0 if every patch of the query points in the direction of
    some patch of the candidate. Other than a median, a mean counts every patch. A patch whose features are all zero has
    cosine 0 with every patch.
    """

    distance_name: ClassVar[str] = "1 - cosine"

    def _rows(self, features: Float32) -> NDArray[Any]:
        return features

    def _between(self, query: NDArray[Any], target: NDArray[Any]) -> Float64:
        return cosine_distances(query, target)

    def _middle(self, nearest: Float64) -> float:
        return math.fsum(nearest.tolist()) / len(nearest)  # rounded once, so the same for any order of the patches
