"""A slide whose levels can be read only inside their borders: what lies outside is transparent."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from PIL import Image

from slideseek.types import UInt8
from slideseek_components.pixels.pyramid import PyramidSlide


class InsideLevels(PyramidSlide):
    """A pyramid that a reader completes with `_read_inside`."""

    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Image.Image:
        width, height = size
        left, top = (round(place / self.addresses[level]) for place in xy)
        right = min(left + width, self.levels[level].width)
        bottom = min(top + height, self.levels[level].height)
        x, y = max(0, left), max(0, top)
        canvas = np.zeros((height, width, 4), np.uint8)
        if right > x and bottom > y:
            cells = canvas[y - top : bottom - top, x - left : right - left]
            cells[..., :3] = self._read_inside(level, (x, y), (right - x, bottom - y))
            cells[..., 3] = 255
        return Image.fromarray(canvas)

    @abstractmethod
    def _read_inside(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> UInt8:
        """Return RGB uint8 (h, w, 3) of `size` (w, h) pixels; `xy` is the top-left in pixels of the level."""
