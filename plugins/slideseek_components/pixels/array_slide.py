"""A slide held in memory: a plain image, a generated slide."""

from __future__ import annotations

import numpy as np
from PIL import Image

from slideseek.types import UInt8
from slideseek_components.pixels.levels import Level
from slideseek_components.pixels.pyramid import PyramidSlide
from slideseek_components.pixels.resolution import Resolution, resolve


class ArraySlide(PyramidSlide):
    """A slide held in memory.

    array: uint8 (h, w, 3) RGB or (h, w, 4) RGBA. mpp: µm per pixel, or a whole `Resolution`.
    """

    def __init__(
        self,
        array: UInt8,
        mpp: float | Resolution,
        slide_id: str = "array",
        *,
        format: str = "array",  # noqa: A002 - the public name of the attribute
    ) -> None:
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] not in (3, 4) or 0 in array.shape:
            raise ValueError(f"array must be uint8 (h, w, 3) or (h, w, 4), not {array.dtype} {array.shape}")
        height, width = array.shape[:2]
        resolution = mpp if isinstance(mpp, Resolution) else resolve({}, mpp, slide_id)
        super().__init__(slide_id, [Level(width, height, 1.0)], resolution, format=format)
        self._array, self._nbytes = array, array.nbytes

    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Image.Image:
        (x, y), (width, height) = xy, size
        inside = self._array[max(0, y) : max(0, y + height), max(0, x) : max(0, x + width)]
        if inside.shape[:2] == (height, width):
            return Image.fromarray(np.ascontiguousarray(inside))
        canvas = np.zeros((height, width, 4), dtype=np.uint8)
        top, left = max(0, -y), max(0, -x)
        target = canvas[top : top + inside.shape[0], left : left + inside.shape[1]]
        target[..., 3] = 255
        target[..., : inside.shape[2]] = inside
        return Image.fromarray(canvas)
