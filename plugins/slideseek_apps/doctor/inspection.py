"""Look at one slide before building: its resolution and its source, its tissue, and the patches a selector chooses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage

from slideseek.boundary import Owner
from slideseek.errors import SlideError
from slideseek.interfaces import ChecksFocus, OffersPatches, OpenedSlide, Selector, TissueFinder, implements
from slideseek.slides.geojson import mask_from_geojson
from slideseek.slides.magnification import finer_than_scanned
from slideseek.slides.patch_images import patch_images, selection_notes
from slideseek.slides.reader import open_slide
from slideseek.types import Float32, Int64, Mask, Patches, UInt8

PICTURE_SIDE = 1200
OUTLINE = (0, 150, 90)
LEFT_OUT = (220, 30, 30)
BOX = (20, 20, 60)

LOOKED_AT, FOCUS_SIDE = 64, 256
"""Patches whose focus is looked at, and the side in pixels they are read at if they are larger."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found on a slide: facts as plain data, and a picture.

    mask: bool (h, w), the tissue on the thumbnail; None if the selector does not report it. dimensions: (width, height)
    of the slide in level-0 pixels.
    """

    facts: dict[str, Any]
    picture: UInt8
    mask: Mask | None
    dimensions: tuple[int, int]


def inspect_slide(
    path: Path,
    selector: Selector,
    owner: Owner,
    mpp: float | None = None,
    slide_id: str = "",
    contours: Path | None = None,
) -> Inspection:
    """Open a slide, find its tissue and select its patches with the selector.

    owner: who answers for the selector. contours: GeoJSON outline of the tissue to use, as a manifest may give for a
    slide.
    """
    with open_slide(path, slide_id, mpp) as slide:
        slide.contours = contours
        thumbnail = slide.thumbnail(PICTURE_SIDE)
        mask = _tissue(slide, thumbnail, selector, owner)
        patches = owner.check_patches(owner.call("select()", selector.select, slide), slide.id)
        facts = _facts(slide, mask, patches, path)
        blurred = np.zeros(len(patches), dtype=np.bool_)
        if implements(selector, ChecksFocus) and len(patches):
            rows, blur, notes = _focus(slide, patches, selector, owner)
            blurred[rows[~blur.sharp]] = True
            facts["measured"] |= {"blur_um": f"{np.median(blur.um):.2f}", "blurred": f"{1 - blur.sharp.mean():.2f}"}
            facts["notes"] += notes
        offered = selector.offered(slide) if implements(selector, OffersPatches) else None
        picture = draw(thumbnail, mask, patches, slide, offered, blurred)
        return Inspection(facts, picture, mask, slide.dimensions)


class _Blur(NamedTuple):
    """The blur of patches in µm, float32 (n,), and whether each is sharp enough, bool (n,)."""

    um: Float32
    sharp: Mask


def _focus(slide: OpenedSlide, patches: Patches, selector: ChecksFocus, owner: Owner) -> tuple[Int64, _Blur, list[str]]:
    """Look at the focus of up to `LOOKED_AT` patches, evenly spread; return which, int64 (n,), their blur and notes."""
    spread = np.linspace(0, len(patches) - 1, min(LOOKED_AT, len(patches))).round().astype(np.int64)
    some, side = patches.take(spread), min(patches.size, FOCUS_SIDE)
    read = list(patch_images(slide, some, side))
    rows = np.concatenate([rows for rows, _ in read])
    mpp = some.mpp[rows] * patches.size / side
    images = np.concatenate([images for _, images in read])
    blur = owner.call("blur_um()", selector.blur_um, images, mpp, slide.mpp)
    try:
        sharp, notes = owner.call("in_focus()", selector.in_focus, blur, mpp, slide.mpp)
    except SlideError as error:  # a build would fail with it
        sharp, notes = np.zeros(len(rows), dtype=np.bool_), [error.cause]
    return spread[rows], _Blur(blur, sharp), list(notes)


def _tissue(slide: OpenedSlide, thumbnail: UInt8, selector: Selector, owner: Owner) -> Mask | None:
    """Return the tissue on the thumbnail, bool (h, w): as outlined, else as the selector reports it, if it can."""
    if slide.contours is not None:
        return mask_from_geojson(slide.contours, slide.dimensions, thumbnail.shape[:2])
    if not implements(selector, TissueFinder):
        return None
    mask: Any = owner.call("find_tissue()", selector.find_tissue, slide, thumbnail)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != thumbnail.shape[:2]:
        got = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise owner.wrong(f"returned {got} from find_tissue(), not bool {thumbnail.shape[:2]}")
    return mask


def draw(
    thumbnail: UInt8,
    mask: Mask | None,
    patches: Patches,
    slide: OpenedSlide,
    offered: Patches | None = None,
    blurred: Mask | None = None,
) -> UInt8:
    """Draw the slide twice, side by side: with its tissue outlined and the glass dimmed, and with the patches framed.

    Without a mask nothing is outlined or dimmed. offered: the patches chosen from; tissue in none of them is red.
    blurred: bool (n,), patches to frame in red.
    """
    left = thumbnail.copy()
    if mask is not None:
        left[~mask] = (left[~mask] * 0.6 + 255 * 0.4).astype(np.uint8)
        rim = mask ^ ndimage.binary_erosion(mask, iterations=2)
        left[rim] = OUTLINE
        if offered is not None:
            lost = mask & ~_shown(offered, slide, mask.shape)
            left[lost] = (left[lost] * 0.4 + np.array(LEFT_OUT) * 0.6).astype(np.uint8)
    image = Image.fromarray(thumbnail)
    pen = ImageDraw.Draw(image)
    scale = thumbnail.shape[1] / slide.dimensions[0]
    for number, ((x, y), mpp) in enumerate(zip(patches.xy, patches.mpp)):
        extent = patches.size * float(mpp) / slide.mpp * scale
        colour = LEFT_OUT if blurred is not None and blurred[number] else BOX
        pen.rectangle([x * scale, y * scale, x * scale + extent, y * scale + extent], outline=colour, width=2)
    gap = np.full((thumbnail.shape[0], 12, 3), 255, np.uint8)
    return np.concatenate([left, gap, np.asarray(image)], axis=1)


def _shown(patches: Patches, slide: OpenedSlide, shape: tuple[int, ...]) -> Mask:
    """Return the part of a picture of the slide, bool `shape` (h, w), that patches show."""
    shown = np.zeros(shape, dtype=np.bool_)
    scale = np.array(shape[::-1]) / slide.dimensions
    side = (patches.size * patches.mpp / slide.mpp)[:, None]
    for (x, y), (to_x, to_y) in zip(np.rint(patches.xy * scale).astype(int), np.rint((patches.xy + side) * scale)):
        shown[max(0, y) : int(to_y), max(0, x) : int(to_x)] = True
    return shown


def _patch_notes(slide: OpenedSlide, patches: Patches) -> list[str]:
    """Return notes on unusual patches: finer than the scan, mostly padding, or too large for the tissue."""
    if not len(patches):
        return []
    finer = finer_than_scanned(slide.mpp, float(patches.mpp.min()))
    notes = [f"{finer} (unless the featurizer shrinks patches anyway)"] if finer else []
    return notes + selection_notes(slide, patches)


def _facts(slide: OpenedSlide, mask: Mask | None, patches: Patches, path: Path) -> dict[str, Any]:
    known = slide.facts
    unseen = ["the selector does not report where it finds tissue: no outline is drawn"] if mask is None else []
    return {
        "slide": slide.id,
        "path": str(path),
        "format": known.format,
        "dimensions": list(slide.dimensions),
        "millimetres": [round(side * mpp / 1000, 2) for side, mpp in zip(slide.dimensions, known.mpp_xy)],
        "mpp": list(known.mpp_xy),
        "mpp_source": known.mpp_source,
        "objective": known.objective,
        "levels": [[width, height, round(downsample, 4)] for width, height, downsample in known.levels],
        "contours": str(slide.contours) if slide.contours else None,
        "tissue_share": None if mask is None else round(float(mask.mean()), 4),
        "tissue_um2": None if patches.tissue_um2 is None else round(patches.tissue_um2),
        "left_out_um2": None if patches.left_out_um2 is None else round(patches.left_out_um2),
        "represented": None if patches.represented is None else round(patches.represented, 4),
        "measured": dict(patches.measured),
        "patches": len(patches),
        "patch_size": patches.size,
        "patch_mpp": sorted({float(m) for m in patches.mpp}),
        "notes": [*slide.notes, *unseen, *_patch_notes(slide, patches)],
    }
