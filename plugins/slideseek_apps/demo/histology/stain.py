"""From concentrations to colour: light through two stains, by the Beer-Lambert law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from slideseek.types import Float32, UInt8

HAEMATOXYLIN = (0.62, 0.70, 0.33)
EOSIN = (0.13, 0.86, 0.42)


@dataclass(frozen=True, slots=True)
class Stain:
    """The staining of one slide. The vectors are optical densities of unit concentration in R, G, B."""

    haematoxylin: tuple[float, float, float]
    eosin: tuple[float, float, float]
    strength: tuple[float, float]
    light: tuple[float, float, float]

    @classmethod
    def draw(cls, center: np.random.Generator, patient: np.random.Generator) -> Stain:
        """Draw a staining: the laboratory sets the hue, each slide varies a little."""

        def vector(base: tuple[float, float, float], spread: float) -> tuple[float, float, float]:
            value = np.array(base) * np.exp(center.normal(0, spread, 3) + patient.normal(0, spread / 3, 3))
            r, g, b = (value / np.linalg.norm(value)).tolist()
            return r, g, b

        haematoxylin, eosin = vector(HAEMATOXYLIN, 0.05), vector(EOSIN, 0.10)
        h, e = np.exp(center.normal(0, 0.13, 2) + patient.normal(0, 0.07, 2)).tolist()
        r, g, b = (np.array([246.5, 245.5, 247.5]) + center.normal(0, 1.0, 3)).tolist()
        return cls(haematoxylin, eosin, (h, e), (min(r, 250.0), min(g, 250.0), min(b, 250.0)))

    def develop(self, haematoxylin: Float32, eosin: Float32, noise: np.random.Generator) -> UInt8:
        """Return RGB uint8 (side, side, 3) of two concentration fields (side, side)."""
        # The lens blurs, which shows only at the sharp edges of the nuclei.
        h = ndimage.gaussian_filter(haematoxylin, 0.7, truncate=3.0)
        h *= np.float32(self.strength[0])
        e = eosin * np.float32(self.strength[1])
        rgb = np.empty((*h.shape, 3), dtype=np.uint8)
        grain = np.float32(1.1) * noise.standard_normal(h.shape, dtype=np.float32)
        for channel in range(3):
            light = h * np.float32(-self.haematoxylin[channel])
            light -= e * np.float32(self.eosin[channel])
            np.exp(light, out=light)
            light *= np.float32(self.light[channel])
            light += grain
            rgb[..., channel] = np.clip(light, 0, 255, out=light)
        return rgb
