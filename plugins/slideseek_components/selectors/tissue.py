"""Find the tissue of a slide on its thumbnail: glass, pen, dust and bubbles left out, pale tissue kept.

Thresholds come from the slide itself, and sizes are shares of the image (or µm² if the resolution is given), so the
same options work for thumbnails of any size.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from PIL import Image
from scipy import ndimage

from slideseek.interfaces import Outlined, Slide
from slideseek.slides.geojson import mask_from_geojson
from slideseek.types import Mask, UInt8
from slideseek_components.selectors.image_masks import ImageMasks
from slideseek_components.selectors.pixel_colours import extremes, grey
from slideseek_components.selectors.tissue_threshold import otsu

TissueMethod: TypeAlias = Literal["hsv-otsu", "yottixel-hsd", "fluorescence"]

SPECK_UM2 = 5_000.0
"""Area below which an isolated object is dust, if the resolution is known: a disc of 80 µm."""

HOLE_UM2 = 20_000.0
"""Area below which a gap enclosed by tissue belongs to it (lumina, small tears): a disc of 160 µm."""

SPECK_SHARE, MAX_SPECK_PIXELS = 2e-4, 200
HOLE_SHARE, MAX_HOLE_PIXELS = 5e-4, 1_000
"""The same two areas as shares of the image if the resolution is not known, capped for very large thumbnails."""

CROP_UM2 = 1e6
"""Area below which a slide is a crop, not a section: one square millimetre."""

MAX_SIDE = 2048
"""Most pixels per side of the thumbnail used: a finer mask takes more time and is no more accurate."""

_NEUTRAL_SPREAD = 5.0
_HSD_CHROMA = 0.05
_HSD_WINDOW = 0.06
_DARK_NOISE = 8.0


def slide_tissue(
    slide: Slide,
    thumbnail: UInt8,
    method: TissueMethod,
    exclude_pen: bool,
    exclude_debris: bool = True,
    max_hole: float = HOLE_UM2,
    masks: ImageMasks | None = None,
) -> Mask:
    """Return bool (h, w), true where `thumbnail`, RGB uint8 (h, w, 3) of the whole of `slide`, shows tissue.

    If a slide has an outline (`Outlined.contours`), only its inside is tissue. The options are those of `tissue_mask`.
    """
    if isinstance(slide, Outlined) and slide.contours is not None:
        return mask_from_geojson(slide.contours, slide.dimensions, thumbnail.shape[:2])
    width, height = slide.dimensions
    # On a crop, all the tissue may be smaller than dust on a whole slide: use shares of the image.
    is_crop = width * height * slide.mpp**2 < CROP_UM2
    mpp = None if is_crop else slide.mpp * width / thumbnail.shape[1]
    without = {"exclude_pen": exclude_pen, "exclude_debris": exclude_debris}
    return tissue_mask(thumbnail, method=method, mpp=mpp, max_hole=max_hole, masks=masks, **without)


def tissue_mask(
    rgb: UInt8,
    method: TissueMethod = "hsv-otsu",
    exclude_pen: bool = True,
    *,
    exclude_debris: bool = True,
    mpp: float | None = None,
    max_hole: float = HOLE_UM2,
    masks: ImageMasks | None = None,
) -> Mask:
    """Return bool (h, w), true where a thumbnail shows tissue.

    rgb: uint8 (h, w, 3). method: `hsv-otsu` (saturation and optical density against the glass of the slide), `yottixel-
    hsd` (Yottixel's rule) or `fluorescence` (bright on dark). exclude_pen: leave out marker ink. exclude_debris: leave
    out dust and the black rims of bubbles. mpp: µm per pixel of the thumbnail; dust and holes are then judged by their
    area in µm². max_hole: the largest gap in µm² that counts as tissue; a patch smaller than that could lie in a lumen
    and show only glass. masks: those of `rgb`, if they are used again. Pen and bubble rims do not occur in
    fluorescence, so only dust is left out there.
    """
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3:
        raise ValueError(f"rgb must be uint8 (h, w, 3), not {rgb.dtype} {rgb.shape}")
    if method not in get_args(TissueMethod):
        raise ValueError(f"method: one of {', '.join(get_args(TissueMethod))}, not {method!r}")
    if mpp is not None and not mpp > 0:
        raise ValueError(f"mpp: above 0 µm/px, not {mpp}")
    if 0 in rgb.shape:
        return np.zeros(rgb.shape[:2], dtype=np.bool_)
    shrink = max(1.0, max(rgb.shape) / MAX_SIDE)
    size = max(1, round(rgb.shape[1] / shrink)), max(1, round(rgb.shape[0] / shrink))
    if shrink > 1 or masks is None:
        masks = ImageMasks(rgb if shrink == 1 else np.asarray(Image.fromarray(rgb).resize(size, Image.Resampling.BOX)))
    area = size[0] * size[1]
    pixel = (mpp * shrink) ** 2 if mpp else 0.0
    hole = min(max_hole, HOLE_UM2) / pixel if pixel else min(HOLE_SHARE * area, MAX_HOLE_PIXELS)
    speck = SPECK_UM2 / pixel if pixel else min(SPECK_SHARE * area, MAX_SPECK_PIXELS)
    mask = _mask(masks, method, exclude_pen, exclude_debris, hole, speck if exclude_debris else 0.0)
    if shrink == 1:
        return mask
    return np.asarray(Image.fromarray(mask).resize(rgb.shape[1::-1], Image.Resampling.NEAREST), dtype=np.bool_)


def _mask(
    seen: ImageMasks, method: TissueMethod, exclude_pen: bool, exclude_debris: bool, hole: float, speck: float
) -> Mask:
    """Return the mask of a thumbnail of bounded size; `hole` and `speck` are areas in its pixels."""
    rgb = seen.rgb
    if method == "fluorescence":
        return _tidy(_bright_on_dark(rgb), speck, hole)
    mask = seen.stained if method == "hsv-otsu" else _hsd(rgb)
    if exclude_debris and not _is_grey(rgb):
        mask = mask & ~seen.debris
    if not exclude_pen:
        return _tidy(mask, speck, hole)
    ink = seen.ink
    # Ink is removed before and after: it must not enclose a hole or be filled like one.
    return drop_small(_tidy(mask & ~ink, speck, hole) & ~ink, speck)


def _is_grey(rgb: UInt8) -> bool:
    """Return whether an image has no colour at all: darkness then means tissue, not dirt."""
    high, low = extremes(np.moveaxis(rgb, 2, 0))
    return bool(np.percentile(high - low, 99) < _NEUTRAL_SPREAD)


def drop_small(mask: Mask, area: float) -> Mask:
    """Return the mask without its 8-connected objects of less than `area` pixels."""
    labels, count = ndimage.label(mask, structure=np.ones((3, 3), dtype=np.int8))
    if not count:
        return mask
    keep = np.bincount(labels.ravel()) >= area
    keep[0] = False
    return np.asarray(keep[labels], dtype=np.bool_)


def _tidy(mask: Mask, speck: float, hole: float) -> Mask:
    """Fill enclosed gaps smaller than `hole`, then drop objects smaller than `speck` (both in pixels)."""
    return drop_small(~drop_small(~mask, hole), speck)


def _hsd(rgb: UInt8) -> Mask:
    """Threshold the colour axis of the hue-saturation-density transform between green and blue, as Yottixel does.

    The transform is van der Laak's (Cytometry 39, 2000); neutral pixels count as white, and the axis is averaged over a
    window of 6 % of the longer side (30 pixels of Yottixel's thumbnail of 500).
    """
    planes = np.moveaxis(rgb, 2, 0).astype(np.float32)
    neutral = np.sqrt(((planes - grey(planes)) ** 2).mean(axis=0)) < _NEUTRAL_SPREAD
    density = -np.log(np.maximum(planes, 1) / 255)
    mean = np.maximum(grey(density), np.float32(1e-6))
    axis = np.where(neutral, np.float32(0), (density[1] - density[2]) / (np.float32(np.sqrt(3)) * mean))
    window = max(1, round(_HSD_WINDOW * max(rgb.shape)))
    return np.asarray(~neutral & (ndimage.uniform_filter(axis, window) >= _HSD_CHROMA), dtype=np.bool_)


def _bright_on_dark(rgb: UInt8) -> Mask:
    """Split brightness by Otsu, with a floor above the noise, so an empty field stays empty."""
    value = ndimage.gaussian_filter(extremes(np.moveaxis(rgb, 2, 0))[0].astype(np.float32), 1.0)
    floor = float(np.median(value)) + _DARK_NOISE if np.ptp(value) < 4 * _DARK_NOISE else _DARK_NOISE
    return np.asarray(value > max(otsu(value.ravel()), floor), dtype=np.bool_)
