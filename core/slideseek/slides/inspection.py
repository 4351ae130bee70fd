"""Look at one slide before building: where its resolution comes from, its tissue, and what a selector would choose."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage

from slideseek.interfaces import Selector
from slideseek.slides.geojson import mask_from_geojson
from slideseek.slides.pyramid import PyramidSlide
from slideseek.slides.reader import open_slide
from slideseek.slides.resolution import finer_than_scanned
from slideseek.types import Mask, Patches, UInt8
from slideseek_components.selectors.tissue import TissueMethod, tissue_mask
from slideseek_components.selectors.tissue_grid import CROP_UM2

PICTURE_SIDE = 1200
OUTLINE = (0, 150, 90)
BOX = (20, 20, 60)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is found on a slide: facts as plain data, and the picture of them."""

    facts: dict[str, Any]
    picture: UInt8
    mask: Mask
    dimensions: tuple[int, int]


def inspect_slide(
    path: Path, selector: Selector, mpp: float | None = None, slide_id: str = "", contours: Path | None = None
) -> Inspection:
    """Open a slide, find its tissue as the selector does and select its patches.

    contours: GeoJSON that outlines the tissue to use, as a manifest may name for a slide.
    """
    with open_slide(path, slide_id, mpp) as slide:
        slide.contours = contours
        thumbnail = slide.thumbnail(PICTURE_SIDE)
        mask = _mask(slide, thumbnail, selector)
        patches = selector.select(slide)
        facts = _facts(slide, mask, patches, path)
        picture = draw(thumbnail, mask, patches, slide)
        return Inspection(facts, picture, mask, slide.dimensions)


def _mask(slide: PyramidSlide, thumbnail: UInt8, selector: Selector) -> Mask:
    """Return the tissue on the thumbnail under the selector's own options, where it has options about tissue."""
    if slide.contours is not None:
        return mask_from_geojson(slide.contours, slide.dimensions, thumbnail.shape[:2])
    width, height = slide.dimensions
    is_crop = width * height * slide.mpp**2 < CROP_UM2  # as the grid of selectors has it
    spec: Any = selector  # a component is a dataclass, which its protocol cannot say
    options = {field.name: getattr(selector, field.name) for field in fields(spec)}
    method: Any = options.get("tissue")
    return tissue_mask(
        thumbnail,
        method=method if method in get_args(TissueMethod) else "hsv-otsu",
        exclude_pen=options.get("exclude_pen") is not False,
        mpp=None if is_crop else slide.mpp * width / thumbnail.shape[1],
    )


def draw(thumbnail: UInt8, mask: Mask, patches: Patches, slide: PyramidSlide) -> UInt8:
    """Draw the slide twice, side by side: with its tissue outlined and glass dimmed, and with the patches framed."""
    left = thumbnail.copy()
    left[~mask] = (left[~mask] * 0.6 + 255 * 0.4).astype(np.uint8)
    rim = mask ^ ndimage.binary_erosion(mask, iterations=2)
    left[rim] = OUTLINE
    image = Image.fromarray(thumbnail)
    pen = ImageDraw.Draw(image)
    scale = thumbnail.shape[1] / slide.dimensions[0]
    for (x, y), mpp in zip(patches.xy, patches.mpp):
        extent = patches.size * float(mpp) / slide.mpp * scale
        pen.rectangle([x * scale, y * scale, x * scale + extent, y * scale + extent], outline=BOX, width=2)
    gap = np.full((thumbnail.shape[0], 12, 3), 255, np.uint8)
    return np.concatenate([left, gap, np.asarray(image)], axis=1)


def _patch_notes(slide: PyramidSlide, patches: Patches) -> list[str]:
    """Say what is odd about the patches: finer than the scan, or larger than the slide."""
    if not len(patches):
        return []
    finer = finer_than_scanned(slide.mpp, float(patches.mpp.min()))
    notes = [f"{finer} (unless the featurizer shrinks patches anyway)"] if finer else []
    extent = patches.size * float(patches.mpp.max()) / slide.mpp
    if extent > min(slide.dimensions):
        notes.append(f"a patch ({extent:.0f} px of the slide) is larger than the slide: is its resolution right?")
    return notes


def _facts(slide: PyramidSlide, mask: Mask, patches: Patches, path: Path) -> dict[str, Any]:
    width, height = slide.dimensions
    resolution = slide.resolution
    return {
        "slide": slide.id,
        "path": str(path),
        "format": slide.format,
        "dimensions": [width, height],
        "millimetres": [round(width * resolution.mpp_x / 1000, 2), round(height * resolution.mpp_y / 1000, 2)],
        "mpp": [resolution.mpp_x, resolution.mpp_y],
        "mpp_source": resolution.source,
        "objective": slide.objective,
        "levels": [[level.width, level.height, round(level.downsample, 4)] for level in slide.levels],
        "contours": str(slide.contours) if slide.contours else None,
        "tissue_share": round(float(mask.mean()), 4),
        "patches": len(patches),
        "patch_size": patches.size,
        "patch_mpp": sorted({float(m) for m in patches.mpp}),
        "notes": [*slide.notes, *_patch_notes(slide, patches)],
    }
