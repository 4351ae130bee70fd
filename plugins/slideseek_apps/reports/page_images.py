"""Pictures for a self-contained page: JPEG data URIs, and scale bars of round length."""

from __future__ import annotations

import base64
import io
import math

import numpy as np
from PIL import Image

from slideseek.types import UInt8


def jpeg_data_uri(rgb: UInt8, quality: int = 85) -> str:
    """Return an image, RGB uint8 (h, w, 3), as a `data:` URI with a JPEG."""
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3 or 0 in rgb.shape:
        raise ValueError(f"rgb: must be uint8 (h, w, 3) with at least one pixel, not {rgb.dtype} {rgb.shape}")
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, "JPEG", quality=quality, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def scale_bar(mpp: float, width: int) -> tuple[float, float]:
    """Choose a scale bar for an image `width` pixels wide at `mpp` µm per pixel: its length in µm and in pixels.

    The length is the largest of 1, 2 or 5 times a power of ten that takes at most 30 % of the width.
    """
    if not (mpp > 0 and math.isfinite(mpp)):
        raise ValueError(f"mpp: must be more than 0 µm per pixel, not {mpp}")
    if width < 1:
        raise ValueError(f"width: must be at least 1 pixel, not {width}")
    room = 0.3 * width * mpp
    decade = 10.0 ** math.floor(math.log10(room))
    length = decade * max(step for step in (1, 2, 5) if step * decade <= room * (1 + 1e-9))
    return length, length / mpp


def length_label(micrometres: float) -> str:
    """Format a length with its unit: `50 µm`, `2 mm`."""
    return f"{micrometres / 1000:g} mm" if micrometres >= 1000 else f"{micrometres:g} µm"
