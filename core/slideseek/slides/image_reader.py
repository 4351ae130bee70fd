"""Plain images as slides: an array in memory, and the PNG, JPEG or TIFF files that OpenSlide does not read."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from slideseek.errors import SlideError
from slideseek.slides.pyramid import PyramidSlide
from slideseek.slides.resampling import Level
from slideseek.slides.resolution import Resolution, resolve
from slideseek.types import UInt8

MAX_PLAIN_PIXELS = 178_956_970
"""Pixels of a plain image, which is decoded whole: Pillow's own limit against decompression bombs (0.5 GiB of RGB)."""

_PYRAMID_FIX = "convert it to a pyramidal tiled TIFF, which is read piece by piece"
_opening = threading.Lock()


class ArraySlide(PyramidSlide):
    """A slide held in memory.

    array: uint8 (h, w, 3) RGB or (h, w, 4) RGBA. mpp: µm per pixel, one number or a `Resolution`.
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
            raise ValueError(f"array: uint8 (h, w, 3) or (h, w, 4), not {array.dtype} {array.shape}")
        height, width = array.shape[:2]
        resolution = mpp if isinstance(mpp, Resolution) else resolve({}, mpp, slide_id)
        super().__init__(slide_id, [Level(width, height, 1.0)], resolution, format=format)
        self._array = array

    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Image.Image:
        (x, y), (width, height) = xy, size
        full_width, full_height = self.dimensions
        inside = self._array[max(0, y) : max(0, y + height), max(0, x) : max(0, x + width)]
        if inside.shape[:2] == (height, width):
            return Image.fromarray(np.ascontiguousarray(inside))
        canvas = np.zeros((height, width, 4), dtype=np.uint8)
        top, left = max(0, -y), max(0, -x)
        target = canvas[top : top + inside.shape[0], left : left + inside.shape[1]]
        target[..., : inside.shape[2]] = inside
        if inside.shape[2] == 3:
            target[..., 3] = 255
        return Image.fromarray(canvas)


def open_image(path: Path, slide_id: str, mpp: float | None) -> ArraySlide:
    """Open a PNG, JPEG or other image Pillow reads, decoded whole, or raise `SlideError`."""
    try:
        with _opening, warnings.catch_warnings():
            # Pillow warns at half its limit and refuses at the limit; only the refusal matters to a person.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path)
    except Image.DecompressionBombError as error:
        raise too_many_pixels(path) from error
    except UnidentifiedImageError as error:
        raise unreadable(path) from error
    except (OSError, ValueError, SyntaxError) as error:
        raise SlideError(
            f"{path.name} cannot be opened as an image ({one_line(error)})", "copy the file again"
        ) from error
    with image:
        if image.width * image.height > MAX_PLAIN_PIXELS:
            raise too_many_pixels(path)
        resolution = resolve(_density(image.info), mpp, path.name)
        try:
            array = _rgb_from_image(image)
        except (OSError, ValueError, SyntaxError, EOFError) as error:
            raise damaged(path, error) from error
        return ArraySlide(array, resolution, slide_id, format=(image.format or "image").lower())


def open_tiff(path: Path, slide_id: str, mpp: float | None) -> ArraySlide:
    """Open the first full-resolution page of a TIFF, decoded whole, or raise `SlideError`."""
    try:
        with tifffile.TiffFile(path) as tiff:
            page = tiff.pages[0]
            if page.imagewidth * page.imagelength > MAX_PLAIN_PIXELS:
                raise too_many_pixels(path)
            resolution = resolve(_tiff_density(page), mpp, path.name)
            array = _rgb_from_page(page, path)
    except SlideError:
        raise
    except Exception as error:  # tifffile and its codecs raise many types for one thing: a file they cannot decode
        raise damaged(path, error) from error
    return ArraySlide(array, resolution, slide_id, format="tiff")


def unreadable(path: Path) -> SlideError:
    """Return the error for a file that is no image at all."""
    return SlideError(
        f"{path.name} is not a slide OpenSlide or Pillow can read",
        "check that it is a slide and not another file renamed, or copy it again",
    )


def damaged(path: Path, error: BaseException) -> SlideError:
    """Return the error for an image that starts well and cannot be decoded."""
    return SlideError(
        f"{path.name} is damaged, truncated or of an unsupported kind ({one_line(error)})",
        "copy the file again or convert it",
    )


def too_many_pixels(path: Path) -> SlideError:
    """Return the error for a plain image too large to be decoded whole."""
    return SlideError(
        f"{path.name} has more than {MAX_PLAIN_PIXELS:,} pixels, the most for an image that is decoded whole",
        _PYRAMID_FIX,
    )


def one_line(error: BaseException) -> str:
    """Return the message of a library error on one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."


def _density(info: Mapping[Any, Any]) -> dict[str, str]:
    """Return the pixel density an image states, as properties; Pillow gives all of them in dots per inch."""
    dpi = info.get("dpi")
    if dpi is None or info.get("jfif_unit") == 0:
        return {}
    return {
        "image.XResolution": str(float(dpi[0])),
        "image.YResolution": str(float(dpi[1])),
        "image.ResolutionUnit": "inch",
    }


def _tiff_density(page: Any) -> dict[str, str]:
    unit = {2: "inch", 3: "centimeter"}.get(int(page.tags.valueof("ResolutionUnit", 2)), "none")
    properties = {"tiff.ResolutionUnit": unit}
    for axis in "XY":
        value = page.tags.valueof(f"{axis}Resolution")
        if value is not None and value[1]:
            properties[f"tiff.{axis}Resolution"] = str(value[0] / value[1])
    return properties


def _rgb_from_image(image: Image.Image) -> UInt8:
    """Return any Pillow mode as uint8 RGB, or RGBA where it has transparency."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _eight_bit(np.asarray(image))[..., None].repeat(3, axis=2)
    transparent = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    return np.array(image.convert("RGBA" if transparent else "RGB"))


def _rgb_from_page(page: Any, path: Path) -> UInt8:
    """Return a TIFF page as uint8 RGB or RGBA."""
    data: NDArray[Any] = np.squeeze(page.asarray())
    photometric = int(page.photometric)
    if data.ndim == 3 and int(page.planarconfig) == 2 and data.shape[0] in (3, 4):
        data = np.moveaxis(data, 0, -1)
    if photometric == 3 and data.ndim == 2:
        return _eight_bit(np.moveaxis(np.asarray(page.colormap), 0, -1))[data]
    data = _eight_bit(data)
    if data.ndim == 2:
        return np.repeat((255 - data if photometric == 0 else data)[..., None], 3, axis=2)
    if data.ndim != 3 or data.shape[2] not in (3, 4):
        raise SlideError(
            f"{path.name} holds an array of shape {data.shape}, not one RGB or grey image", "export one RGB image of it"
        )
    if photometric == 5:
        return np.asarray(Image.fromarray(data, "CMYK").convert("RGB"))
    return np.ascontiguousarray(data)


def _eight_bit(data: NDArray[Any]) -> UInt8:
    """Scale samples to uint8: unsigned integers by their full range, everything else by its largest value."""
    if data.dtype == np.uint8:
        return data
    if data.dtype == np.bool_:
        return data.astype(np.uint8) * 255
    if data.dtype == np.uint16:
        return (data >> 8).astype(np.uint8)
    values = np.nan_to_num(data.astype(np.float64)).clip(min=0)
    top = values.max(initial=0.0)
    top = 65_535.0 if 255 < top <= 65_535 and data.dtype.kind in "iu" else max(top, 1.0)
    return (values * (255.0 / top)).round().astype(np.uint8)
