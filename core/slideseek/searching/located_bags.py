"""Bags with the squares their patches were read from, for queries and hits.

They are read from the archive, or computed from a slide, a part of a slide or a patch image.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.slide_table import SlideRow
from slideseek.engine import Engine
from slideseek.errors import DamagedError, SlideError, SlideseekError, UsageError
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import Slide
from slideseek.searching.patch_squares import PatchSquares
from slideseek.slides.area import Annotations, Area, Region, Unbounded
from slideseek.slides.reader import open_slide
from slideseek.slides.region_slide import RegionSlide
from slideseek.types import Bag, Patches

_LOOK_SIDE = 512
"""Side of the thumbnail of a region on which tissue is looked for, in pixels."""

_SHIFTS = (0.5, 0.25, 0.75)
"""Where the first centre of a grid over a region lies, as shares of a patch's side."""

_SOME_TISSUE = 0.25
"""Share of tissue with which a patch of a region is used if none has as much as the engine asks for."""


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


def fresh_bag(engine: Engine, slide: Slide, patches: Patches, site: str) -> tuple[LocatedBag, list[str]]:
    """Read and featurize patches of a slide, and return notes. Those undecodable or out of focus are left out."""
    bag, notes = engine.featurize(slide, patches, site)
    if not len(bag):
        raise SlideError(f"no patch of slide {slide.id!r} could be read", "copy the slide again from its source")
    return LocatedBag.of(bag), notes


def select_in(engine: Engine, slide: Slide, area: Area, like: Callable[[], Patches]) -> tuple[Patches, tuple[str, ...]]:
    """Select patches whose centre lies in an area, in the slide's coordinates; return them with notes.

    If the selector finds none with enough tissue, those of a grid shifted to fit the area that show some are taken: who
    marks a part of a slide wants to search with it. like: returns patches of the engine, for their size.
    """
    notes: tuple[str, ...] = ()
    chosen = _inside(slide, area, engine.select(RegionSlide.of(slide, area)))
    if not len(chosen):
        chosen = _shifted_grid(engine, slide, area, like())
        notes = ("no patch in the region has as much tissue as the engine asks for: those that show some are used",)
    side = chosen.size * chosen.mpp / slide.mpp
    if side.min() <= min(area.width, area.height):
        return chosen, notes
    field = float(side.min()) * slide.mpp
    return chosen, (*notes, f"the region is smaller than a patch: {field:g} x {field:g} µm around it is used")


def _inside(slide: Slide, area: Area, patches: Patches) -> Patches:
    """Return the patches of an area's box whose centre lies in the area, in the slide's coordinates."""
    corner, room = np.array([area.x, area.y]), np.array([area.width, area.height])
    side = (patches.size * patches.mpp / slide.mpp)[:, None]
    # A field larger than the region is centred on it, and kept inside the slide if it fits.
    around = np.clip(corner + (room - side) / 2, 0, np.maximum(np.array(slide.dimensions) - side, 0))
    xy = np.where(side > room, np.floor(around), patches.xy + corner)
    kept = area.holds(xy + side / 2)
    corners = np.ascontiguousarray(xy[kept], dtype=np.int32)
    return Patches(slide.id, corners, patches.size, patches.mpp[kept], measured=patches.measured)


def _shifted_grid(engine: Engine, slide: Slide, area: Area, like: Patches) -> Patches:
    """Return patches that show tissue and have their centre in an area: of a few shifted grids, that with the most.

    They may extend beyond the area. like: patches of the engine, for their size.
    """
    part, mpp = RegionSlide.of(slide, area), float(like.mpp[0])
    mask = engine.find_tissue(part, part.thumbnail(_LOOK_SIDE))
    if mask is None or not mask.any():
        raise SlideseekError(
            f"no tissue found in the region of {slide.id!r}",
            "choose a larger region, or look at the slide with 'slideseek inspect'",
        )
    corner, room, side = np.array([area.x, area.y]), np.array([area.width, area.height]), like.size * mpp / slide.mpp
    best = np.empty((0, 2))
    for shift in itertools.product(_SHIFTS, repeat=2):
        axes = [np.arange(start * side, length + 1, side) for start, length in zip(shift, room)]
        centres = corner + np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        held = centres[area.holds(centres)]
        best = held if len(held) > len(best) else best
    if not len(best):
        raise SlideseekError(
            f"no patch of {side:.0f} px has its centre in the region of {slide.id!r}",
            "choose a larger or wider region",
        )
    scale = np.array(mask.shape[::-1]) / room
    low = np.floor(np.clip(best - corner - side / 2, 0, room) * scale).astype(int)
    high = np.ceil(np.clip(best - corner + side / 2, 0, room) * scale).astype(int)
    shares = np.array([mask[y:to_y, x:to_x].mean() for (x, y), (to_x, to_y) in zip(low, high)])
    within = np.maximum(np.array(slide.dimensions) - side, 0)
    xy = np.floor(np.clip(best[shares >= min(_SOME_TISSUE, shares.max())] - side / 2, 0, within))
    return Patches.at(slide.id, xy, like.size, mpp)


def stored_in(bag: LocatedBag, part: Region | Annotations) -> LocatedBag:
    """Return the patches of a stored bag whose centre lies in a part of the slide, for slides without pixels."""
    whole = bag.bag
    if whole.mpp is None or whole.sides is None or (whole.xy < 0).all():
        raise SlideseekError(
            f"the features of slide {whole.slide_id!r} were imported without the places of their patches",
            "query with the whole slide, or import features with coords",
        )
    area = part.area(Unbounded(whole.slide_id, whole.mpp))
    kept = area.holds(whole.xy + whole.sides[:, None] / 2)
    if not kept.any():
        low, high = whole.xy.min(axis=0), (whole.xy + whole.sides[:, None]).max(axis=0)
        raise SlideseekError(
            f"no imported patch of slide {whole.slide_id!r} has its centre in the region",
            f"choose a region within x {low[0]} to {high[0]:.0f}, y {low[1]} to {high[1]:.0f} (level-0 pixels)",
        )
    return LocatedBag.of(replace(whole, features=whole.features[kept], xy=whole.xy[kept], sides=whole.sides[kept]))


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
