"""Plain images as slides: an array in memory, and the files that Pillow reads."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from slideseek.slides.bit_depth import eight_bit
from slideseek.slides.levels import Level
from slideseek.slides.limits import MAX_PLAIN_PIXELS
from slideseek.slides.pyramid import PyramidSlide
from slideseek.slides.resolution import Resolution, resolve
from slideseek.slides.slide_errors import damaged, not_a_slide, too_many_pixels
from slideseek.types import UInt8

_opening = threading.Lock()


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
        self._array = array

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


def open_image(path: Path, slide_id: str, mpp: float | None) -> ArraySlide:
    """Open an image Pillow reads (PNG, JPEG, ...), decoded whole, or raise `SlideError`."""
    try:
        with _opening, warnings.catch_warnings():
            # Pillow warns at half its limit and raises at the limit: only the error matters here.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path)
    except Image.DecompressionBombError as error:
        raise too_many_pixels(path) from error
    except UnidentifiedImageError as error:
        raise not_a_slide(path) from error
    except (OSError, ValueError, SyntaxError) as error:
        raise damaged(path, error) from error
    with image:
        if image.width * image.height > MAX_PLAIN_PIXELS:
            raise too_many_pixels(path)
        resolution = resolve(_density(image.info), mpp, path.name)
        try:
            array = _rgb(image)
        except (OSError, ValueError, SyntaxError, EOFError) as error:
            raise damaged(path, error) from error
        return ArraySlide(array, resolution, slide_id, format=(image.format or "image").lower())


def _density(info: Mapping[Any, Any]) -> dict[str, str]:
    """Return the pixel density an image states, as properties; Pillow gives it in dots per inch."""
    dpi = info.get("dpi")
    # Unit 0 of a JPEG is an aspect ratio, not a physical resolution.
    if dpi is None or info.get("jfif_unit") == 0:
        return {}
    return {
        "image.XResolution": str(float(dpi[0])),
        "image.YResolution": str(float(dpi[1])),
        "image.ResolutionUnit": "inch",
    }


def _rgb(image: Image.Image) -> UInt8:
    """Convert any Pillow mode to uint8 RGB, or RGBA if it has transparency."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return np.repeat(eight_bit(np.asarray(image))[..., None], 3, axis=2)
    transparent = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    return np.array(image.convert("RGBA" if transparent else "RGB"))
