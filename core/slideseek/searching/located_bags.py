"""Bags with the squares their patches were read from, for queries and hits.

They are read from the archive, or computed from a slide, a part of a slide or a patch image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.slide_table import SlideRow
from slideseek.engine import Engine, make_bag
from slideseek.errors import DamagedError, SlideError, SlideseekError, UsageError
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import Slide
from slideseek.searching.patch_squares import PatchSquares
from slideseek.slides.area import Area
from slideseek.slides.patch_images import patch_images
from slideseek.slides.reader import open_slide
from slideseek.slides.region_slide import RegionSlide
from slideseek.types import Bag, Patches


@dataclass(frozen=True, slots=True, eq=False)
class LocatedBag:
    """A bag and the squares of its patches, row for row."""

    bag: Bag
    squares: PatchSquares

    def __post_init__(self) -> None:
        if len(self.bag) != len(self.squares):
            raise ValueError(f"LocatedBag: {len(self.bag)} features and {len(self.squares)} squares")

    @classmethod
    def of(cls, bag: Bag) -> LocatedBag:
        """Return a bag with its squares; a bag that does not state them is a `DamagedError`."""
        if bag.sides is None:
            cause = f"the features of slide {bag.slide_id!r} do not state the size of their patches"
            raise DamagedError(cause, "run 'slideseek build --verify'")
        return cls(bag, PatchSquares(bag.xy, bag.sides))

    @classmethod
    def joined(cls, slide_id: str, site: str, parts: Sequence[LocatedBag]) -> LocatedBag:
        """Return the bags of several slides as one."""
        squares = PatchSquares.joined([(part.bag.slide_id, part.squares) for part in parts])
        features = np.concatenate([part.bag.features for part in parts])
        mpp = parts[0].bag.mpp if len({part.bag.mpp for part in parts}) == 1 else None  # one scale, or no geometry
        return cls(Bag(slide_id, features, squares.xy, site, squares.side if mpp else None, mpp), squares)


def stored_bag(archive: Archive, engine: Engine, stages: StageCache, slide: SlideRow) -> LocatedBag:
    """Read the features and squares an engine stores for a slide of the archive."""
    return LocatedBag.of(archive.bag(stages.key(engine, "featurize", slide), slide.record))


def fresh_bag(engine: Engine, slide: Slide, patches: Patches, site: str) -> LocatedBag:
    """Read and featurize patches of a slide. A patch that cannot be decoded is left out of both."""
    features, rows = [], []
    for numbers, images in patch_images(slide, patches, engine.read_side(patches)):
        features.append(engine.features(images))
        rows.append(numbers)
    if not rows:
        raise SlideError(f"no patch of slide {slide.id!r} could be read", "copy the slide again from its source")
    bag = make_bag(slide.id, np.concatenate(features), patches, np.concatenate(rows), site, slide.mpp)
    return LocatedBag.of(bag)


def select_in(engine: Engine, slide: Slide, area: Area) -> tuple[Patches, tuple[str, ...]]:
    """Select patches whose centre lies in an area, in the slide's coordinates; return them with notes."""
    patches = engine.select(RegionSlide.of(slide, area))
    if not len(patches):
        raise SlideseekError(
            f"no tissue found in the region of {slide.id!r}, or no patch with enough of it",
            "choose a larger region, or look at the slide with 'slideseek inspect'",
        )
    corner, room = np.array([area.x, area.y]), np.array([area.width, area.height])
    side = (patches.size * patches.mpp / slide.mpp)[:, None]
    # A field larger than the region is centred on it, and kept inside the slide if it fits.
    around = np.clip(corner + (room - side) / 2, 0, np.maximum(np.array(slide.dimensions) - side, 0))
    xy = np.where(side > room, np.floor(around), patches.xy + corner)
    kept = area.holds(xy + side / 2)
    if not kept.any():
        raise SlideseekError(
            f"no patch of {float(side.min()):.0f} px has its centre in the region of {slide.id!r}",
            "choose a larger or wider region",
        )
    chosen = replace(patches, xy=np.ascontiguousarray(xy[kept], dtype=np.int32), mpp=patches.mpp[kept])
    if (side.min() <= room).all():
        return chosen, ()
    field = float(side.min()) * slide.mpp
    return chosen, (f"the region is smaller than a patch: {field:g} x {field:g} µm around it is used",)


def patch_bag(
    engine: Engine, path: Path, like: Patches, site: str, mpp: float | None
) -> tuple[LocatedBag, tuple[str, ...]]:
    """Read and featurize one patch image, resized as the engine reads patches such as `like`.

    Without `mpp` the central square of the image is taken as one patch at any resolution. With `mpp` (µm per pixel)
    the field of a patch is cut from its centre. The error for an image that is too small states the size needed.
    """
    side, field = engine.read_side(like), like.size * float(like.mpp[0])
    with open_slide(path, path.stem, mpp or 1.0) as image:
        shape = np.array(image.dimensions)
        extent = field / mpp if mpp else float(shape.min())
        needed = round(extent) if mpp else side
        if shape.min() < needed:
            raise UsageError(
                f"{path.name} is {shape[0]} x {shape[1]} px, smaller than a patch of engine {engine.name!r}",
                f"cut a patch of at least {needed} x {needed} px that shows {field:g} x {field:g} µm",
            )
        xy = ((shape - extent) / 2).astype(np.int32)
        pixels = image.read((int(xy[0]), int(xy[1])), side, (mpp or 1.0) * extent / side)
        notes = tuple(image.notes) if mpp else ()
    sides = np.array([extent])
    bag = Bag(str(path), engine.features(pixels[None]), xy[None], site, sides, mpp or field / extent)
    return LocatedBag(bag, PatchSquares(xy[None], sides)), notes
