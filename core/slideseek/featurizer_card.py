"""What a person asks about a featurizer before using it, answered without loading any weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class FeaturizerCard:
    """Describe a featurizer as it is configured.

    width: length of a feature vector, None while only the weights could tell. patch_size (pixels) and mpp
    (µm a pixel): the patches it is meant for, not a limit. licence: of the weights, or of the code where
    there are none. weights: where they come from, "" when none are needed. present: they are in place.
    """

    width: int | None
    patch_size: int
    mpp: float
    licence: str
    weights: str
    present: bool


@runtime_checkable
class Described(Protocol):
    """A featurizer that can say what it expects and whether it could run."""

    def card(self) -> FeaturizerCard:
        """Return the card; cheap: no weights are read, no network is built."""
        ...
