"""A slide in memory that has exactly the interface of a slide, and no more."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Self

import numpy as np
from PIL import Image

from slideseek.types import UInt8


class ToySlide:
    """Pixels with a resolution: implements `Slide` and `Outlined`.

    pixels: RGB uint8 (h, w, 3). mpp: µm per pixel. Reading averages over the area of a pixel of the result.
    """

    def __init__(self, pixels: UInt8, mpp: float, slide_id: str) -> None:
        self.id = slide_id
        self.mpp = mpp
        self.contours: Path | None = None
        self._pixels = pixels

    @property
    def dimensions(self) -> tuple[int, int]:
        """Width and height in level-0 pixels."""
        return self._pixels.shape[1], self._pixels.shape[0]

    def read(self, xy: tuple[int, int], size: int, mpp: float) -> UInt8:
        """Return RGB uint8 (size, size, 3) of the square at `xy` (level-0 pixels), at `mpp`; white outside."""
        (x, y), side = xy, size * mpp / self.mpp
        whole = math.ceil(side)
        square = np.full((whole, whole, 3), 255, dtype=np.uint8)
        inside = self._pixels[max(0, y) : max(0, y + whole), max(0, x) : max(0, x + whole)]
        top, left = max(0, -y), max(0, -x)
        square[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
        image = Image.fromarray(square)
        return np.asarray(image.resize((size, size), Image.Resampling.BOX, box=(0, 0, side, side)))

    def thumbnail(self, side: int) -> UInt8:
        """Return RGB uint8 (h, w, 3) of the whole slide, the longer side at most `side` pixels."""
        width, height = self.dimensions
        scale = max(1.0, max(width, height) / side)
        shape = max(1, round(width / scale)), max(1, round(height / scale))
        return np.asarray(Image.fromarray(self._pixels).resize(shape, Image.Resampling.BOX))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to release."""
