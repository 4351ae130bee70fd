"""The queried part of a slide: a rectangle, or annotations drawn in QuPath."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import SlideError, UsageError
from slideseek.interfaces import Slide
from slideseek.slides.geojson import read_annotations
from slideseek.slides.polygons import Polygon, points_in_polygons
from slideseek.types import Float64, Mask

_INSIDE = "give x,y,w,h of a rectangle inside the slide, in level-0 pixels, or in µm with 'um' at the end"


@dataclass(frozen=True, slots=True)
class Unbounded:
    """A slide whose size is unknown, since only its features were imported."""

    id: str
    mpp: float
    dimensions: tuple[int, int] = (2**31 - 1, 2**31 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """A part of one slide: its bounding box in level-0 pixels, and the polygons inside it; none for a whole box."""

    x: int
    y: int
    width: int
    height: int
    polygons: tuple[Polygon, ...] = ()

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The bounding box: x, y, width, height."""
        return self.x, self.y, self.width, self.height

    def holds(self, points: Float64) -> Mask:
        """Return which points, float64 (n, 2) in level-0 pixels, lie in the area: bool (n,)."""
        if self.polygons:
            return points_in_polygons(self.polygons, points)
        low, high = (self.x, self.y), (self.x + self.width, self.y + self.height)
        return np.asarray(((points >= low) & (points <= high)).all(axis=1), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of a slide: top-left corner, width and height, in level-0 pixels or, with `microns`, in µm."""

    x: float
    y: float
    width: float
    height: float
    microns: bool = False

    @classmethod
    def parse(cls, text: str) -> Region:
        """Parse `x,y,w,h` in level-0 pixels, or `x,y,w,h um`."""
        numbers, microns = text.strip(), False
        for unit in ("µm", "um"):
            if numbers.endswith(unit):
                numbers, microns = numbers.removesuffix(unit).strip(), True
        try:
            values = [float(part) for part in numbers.split(",")]
        except ValueError:
            values = []
        if len(values) != 4 or not all(map(math.isfinite, values)):
            fix = "write x,y,w,h in level-0 pixels, or in µm with 'um' at the end, or give a .geojson file"
            raise UsageError(f"cannot read the region {text!r}", fix)
        return cls(values[0], values[1], values[2], values[3], microns)

    def pixels(self, mpp: float) -> tuple[int, int, int, int]:
        """Return x, y, width, height in level-0 pixels of a slide of `mpp`."""
        scale = 1 / mpp if self.microns else 1.0
        return round(self.x * scale), round(self.y * scale), round(self.width * scale), round(self.height * scale)

    def area(self, slide: Slide | Unbounded) -> Area:
        """Return the rectangle on a slide; it must lie inside the slide."""
        x, y, width, height = self.pixels(slide.mpp)
        across, down = slide.dimensions
        if width < 1 or height < 1 or x < 0 or y < 0 or x + width > across or y + height > down:
            cause = f"the region {x},{y},{width},{height} is not inside slide {slide.id!r} of {across} x {down} px"
            raise UsageError(cause, _INSIDE)
        return Area(x, y, width, height)


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """One or several annotations of a GeoJSON file, taken together. name: for messages."""

    name: str
    polygons: tuple[Polygon, ...]

    @classmethod
    def read(cls, path: Path, wanted: str = "") -> Annotations:
        """Read a GeoJSON file as QuPath exports it; `wanted` selects only annotations of that name or class."""
        found = read_annotations(path)
        chosen = [one for one in found if wanted in (one.name, one.kind)] if wanted else found
        if not chosen:
            names = sorted({name for one in found for name in (one.name, one.kind) if name})
            have = f"it has {', '.join(names[:20])}" if names else "its annotations have no names; omit the name"
            raise UsageError(f"{path.name} has no annotation {wanted!r}", did_you_mean(wanted, names, have))
        polygons = tuple(polygon for one in chosen for polygon in one.polygons())
        if sum(_area(rings[0]) for rings in polygons) < 1:
            raise SlideError(
                f"the annotations of {path.name} enclose no area: all their points lie on a line or in one pixel",
                "draw a closed outline, and export it again",
            )
        title = chosen[0].title if len(chosen) == 1 else f"{len(chosen)} annotations"
        return cls(f"{title} of {path.name}", polygons)

    def area(self, slide: Slide | Unbounded) -> Area:
        """Return the annotated part of a slide; anything beyond its border is cut off."""
        across, down = slide.dimensions
        corners = np.concatenate([rings[0] for rings in self.polygons])
        low = np.maximum(np.floor(corners.min(axis=0)), 0)
        high = np.minimum(np.ceil(corners.max(axis=0)), (across, down))
        if (high - low < 1).any():
            raise UsageError(
                f"{self.name} lies outside slide {slide.id!r} of {across} x {down} px",
                "export the annotations of this slide, in pixels of its full resolution",
            )
        (x, y), (width, height) = low.astype(int).tolist(), (high - low).astype(int).tolist()
        return Area(x, y, width, height, self.polygons)


def _area(ring: Float64) -> float:
    """Return the area a ring, float64 (n, 2), encloses, in its own unit squared."""
    x, y = (ring - ring[0]).T
    return abs(float(np.dot(x, np.roll(y, -1)) - np.dot(np.roll(x, -1), y))) / 2
