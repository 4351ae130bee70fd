"""TIFF files that OpenSlide cannot read: untiled, or of unusual depth or compression."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import openslide
from numpy.typing import NDArray
from PIL import Image

from slideseek.errors import SlideError
from slideseek.interfaces import Reader
from slideseek.slides.slide_errors import damaged
from slideseek.types import UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.pixels.resolution import resolve
from slideseek_components.readers.bit_depth import eight_bit
from slideseek_components.readers.tiff_layout import MAGIC, check_complete
from slideseek_components.readers.whole_images import refuse_bomb

_MIN_IS_WHITE, _PALETTE, _SEPARATED = 0, 3, 5
_PLANES_APART = 2
_UNITS = {2: "inch", 3: "centimeter"}

# tifffile's log records repeat its exceptions; without a handler Python would print them to the terminal.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class TiffReader(Reader):
    """Read the first page of a TIFF that no reader before it has opened, with tifffile."""

    code_revision: ClassVar[int] = 1
    rank: ClassVar[int] = 200

    def claims(self, path: Path, head: bytes) -> bool:
        """Claim every TIFF and BigTIFF."""
        return head.startswith(MAGIC)

    def open(self, path: Path, slide_id: str, mpp: float | None) -> ArraySlide:
        """Open a TIFF, decoded whole; one that was cut short is refused."""
        check_complete(path, openslide.OpenSlide.detect_format(path))
        return open_tiff(path, slide_id, mpp)


def open_tiff(path: Path, slide_id: str, mpp: float | None) -> ArraySlide:
    """Open the first page of a TIFF, decoded whole, or raise `SlideError`."""
    import tifffile  # takes as long as a slide; few need it

    try:
        with tifffile.TiffFile(path) as tiff:
            page = tiff.pages[0]
            refuse_bomb(path, page.imagewidth * page.imagelength)
            resolution = resolve(density(page), mpp, path.name)
            array = _rgb(page, path)
    except SlideError:
        raise
    except Exception as error:  # tifffile and its codecs raise many types for bytes they cannot decode
        raise damaged(path, error) from error
    return ArraySlide(array, resolution, slide_id, format="tiff")


def density(page: Any) -> dict[str, str]:
    """Return the resolution tags of a page as properties with OpenSlide's names."""
    properties = {"tiff.ResolutionUnit": _UNITS.get(int(page.tags.valueof("ResolutionUnit", 2)), "none")}
    for axis in "XY":
        value = page.tags.valueof(f"{axis}Resolution")
        if value is not None and value[1]:
            properties[f"tiff.{axis}Resolution"] = str(value[0] / value[1])
    return properties


def _rgb(page: Any, path: Path) -> UInt8:
    """Return a page as uint8 RGB, or RGBA if it has a fourth sample."""
    data: NDArray[Any] = np.squeeze(page.asarray())
    photometric = int(page.photometric)
    if data.ndim == 3 and int(page.planarconfig) == _PLANES_APART:
        data = np.moveaxis(data, 0, -1)
    if photometric == _PALETTE and data.ndim == 2:
        palette = np.moveaxis(np.asarray(page.colormap), 0, -1)
        return np.asarray((palette >> 8)[data], dtype=np.uint8)
    if data.ndim == 2:
        grey = eight_bit(data)
        return np.repeat((255 - grey if photometric == _MIN_IS_WHITE else grey)[..., None], 3, axis=2)
    if data.ndim != 3 or data.shape[2] not in (3, 4):
        raise SlideError(
            f"{path.name} contains an array of shape {data.shape}, not one RGB or grey image",
            "export one RGB image of it",
        )
    if photometric == _SEPARATED:
        return np.asarray(Image.fromarray(eight_bit(data), "CMYK").convert("RGB"))
    return np.ascontiguousarray(eight_bit(data))
