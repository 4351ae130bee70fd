"""Re-rank by the median over patches of the distance to the nearest patch, of features or of their barcodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Float32, Float64
from slideseek_components.encoders.yottixel import Yottixel, barcodes
from slideseek_components.indexes.cosine import cosine_distances
from slideseek_components.indexes.hamming import differing_bits

from .patch_pairs import PatchPairs

On: TypeAlias = Literal["features", "barcodes"]


@dataclass
class MedianOfMin(PatchPairs):
    """Order the nearest slides by the median over the query's patches of the distance to the most similar patch.

    The rule of Yottixel (Kalra et al., Medical Image Analysis 2020), which compares a query well with a slide that
    shows the same tissue among other things. The median ignores up to half of the patches, such as artefacts.

    on: what is compared. `features`: 1 - cosine of the stored features; `barcodes`: the number of differing bits of
    their Yottixel barcodes.
    """

    on: On = field(default="features", metadata={"at_query": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on not in ("features", "barcodes"):
            raise ValueError(f"on: features or barcodes, not {self.on!r}")

    @property
    def distance_name(self) -> str:
        """What a distance is."""
        return "1 - cosine" if self.on == "features" else "differing bits"

    def _rows(self, features: Float32) -> NDArray[Any]:
        if self.on == "features":
            return features
        Yottixel().spec(features.shape[1])  # too few features for a barcode are an error
        return barcodes(features)

    def _between(self, query: NDArray[Any], target: NDArray[Any]) -> Float64:
        return (cosine_distances if self.on == "features" else differing_bits)(query, target)

    def _middle(self, nearest: Float64) -> float:
        return float(np.median(nearest))
