"""Plain images as slides: the files that Pillow reads."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image, UnidentifiedImageError

from slideseek.interfaces import Reader
from slideseek.slides.slide_errors import DeclinedError, damaged
from slideseek.types import UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.pixels.resolution import resolve
from slideseek_components.readers.bit_depth import eight_bit
from slideseek_components.readers.whole_images import refuse_bomb, too_many_pixels

_opening = threading.Lock()


@dataclass(frozen=True)
class ImageReader(Reader):
    """Read plain images: PNG, JPEG and whatever else Pillow decodes. Asked last: it takes what nobody else reads."""

    code_revision: ClassVar[int] = 1
    rank: ClassVar[int] = 1000

    def claims(self, path: Path, head: bytes) -> bool:
        """Claim every file: Pillow decides by content, when the file is opened."""
        return True

    def open(self, path: Path, slide_id: str, mpp: float | None) -> ArraySlide:
        """Open an image, decoded whole."""
        return open_image(path, slide_id, mpp)


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
        raise DeclinedError(f"Pillow does not know the format of {path.name}") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise damaged(path, error) from error
    with image:
        refuse_bomb(path, image.width * image.height)
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
