"""Heat map colours: one scale for all slides of a picture. Colours and rule are those of the viewer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.searching.evidence import EvidenceKind
from slideseek.types import Float64, UInt8

# They stand out from pink and purple tissue and suit colour-blind readers: weak to strong, and against to for.
RISING = np.array([[52, 44, 138], [41, 110, 187], [31, 161, 135], [139, 211, 70], [253, 231, 37]], dtype=np.float64)
PARTED = np.array([[33, 88, 196], [150, 186, 236], [240, 240, 240], [245, 178, 96], [214, 84, 12]], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class HeatScale:
    """A colour scale from `low` to `high`. parted: it has both signs, and zero is pale, in the middle."""

    low: float
    high: float
    parted: bool

    @classmethod
    def over(cls, *parts: Float64) -> HeatScale:
        """Return the scale that all of some parts share: the same colour means the same part everywhere."""
        together = np.concatenate(parts) if parts else np.zeros(0)
        low, high = (float(together.min()), float(together.max())) if len(together) else (0.0, 0.0)
        if low < 0 < high:  # a negative part must not look like a small positive one
            reach = max(-low, high)
            return cls(-reach, reach, True)
        return cls(low, high, False)

    def places(self, parts: Float64) -> Float64:
        """Return the position of each part on the scale, 0 to 1: float64 (n,)."""
        width = self.high - self.low
        return np.clip((parts - self.low) / width, 0.0, 1.0) if width > 0 else np.ones(len(parts))

    def colours(self, parts: Float64) -> UInt8:
        """Return the colour of each part: uint8 (n, 3)."""
        return self.ramp(self.places(parts))

    def ends(self, kind: EvidenceKind) -> tuple[str, str]:
        """Return what stands at the weak and at the strong end of a legend."""
        if kind == "pairs":
            return f"least similar: distance {-self.low:z.4g}", f"most similar: distance {-self.high:z.4g}"
        if self.parted:
            return f"makes less similar: {self.low:+z.3g}", f"makes more similar: {self.high:+z.3g}"
        what = "the distance grows" if kind == "removals" else "adds"
        return f"{what} least: {self.low:+z.3g}", f"{what} most: {self.high:+z.3g}"

    def ramp(self, places: Float64) -> UInt8:
        """Return the colours at positions 0 to 1: uint8 (n, 3)."""
        stops = PARTED if self.parted else RISING
        at = np.linspace(0, 1, len(stops))
        channels = [np.interp(places, at, stops[:, channel]) for channel in range(3)]
        return np.stack(channels, axis=-1).round().astype(np.uint8)
