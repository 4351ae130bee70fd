"""The two sides of a match, ready to draw: the slide files, the patches, and the contribution of each patch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.file_changes import content_changed
from slideseek.errors import SlideError
from slideseek.interfaces import OpenedSlide
from slideseek.searching.evidence import Evidence
from slideseek.searching.patch_squares import PatchSquares
from slideseek.searching.queries import Query
from slideseek.slides.reader import open_slide
from slideseek.types import Float64, SlideRecord, UInt8


@dataclass(frozen=True, slots=True)
class PixelSource:
    """The file with a slide's pixels. mpp: the resolution the user stated, None for the file's own.

    replaced: the file now holds another picture than the one the patches were selected in.
    """

    path: Path
    mpp: float | None = None
    replaced: bool = False

    @classmethod
    def of(cls, archive: Archive, record: SlideRecord, path: Path | None = None) -> PixelSource:
        """Return the file of a slide of the archive, or of a query. path: where the query's pixels are."""
        row = archive.catalog.slides.get(record.id)
        replaced = row is not None and content_changed(archive, row)
        return cls(path or archive.slide_path(record), record.mpp, replaced)

    def require_same(self, slide_id: str) -> None:
        """Raise `SlideError` if patches would be drawn on another picture."""
        if self.replaced:
            cause = f"the file of {slide_id!r} was replaced: its patches would be drawn on another picture"
            raise SlideError(cause, "run 'slideseek build', then search again")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The query or the hit. parts: float64 (n,), contribution per patch. sources: by slide id, several for a case."""

    name: str
    title: str
    squares: PatchSquares
    parts: Float64
    sources: Mapping[str, PixelSource]

    def slide_of(self, patch: int) -> str:
        """Return the id of the slide that contains a patch."""
        return self.squares.slides[patch] if self.squares.slides else next(iter(self.sources))

    def patches_on(self, slide_id: str) -> list[int]:
        """Return the numbers of the patches of one slide."""
        return [number for number in range(len(self.squares)) if self.slide_of(number) == slide_id]

    @property
    def slide_ids(self) -> tuple[str, ...]:
        """The slides that have patches, the one with the strongest patch first."""
        order = np.argsort(-self.parts, kind="stable")
        return tuple(dict.fromkeys(self.slide_of(int(number)) for number in order))


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """Evidence together with its two sides."""

    evidence: Evidence
    query: Side
    hit: Side

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that can be drawn: text has no picture."""
        return tuple(side for side in (self.query, self.hit) if side.sources)

    def require_same_pictures(self) -> None:
        """Raise `SlideError` if a slide of either side was replaced after its patches were selected."""
        for side in (self.query, self.hit):
            for slide_id, source in side.sources.items():
                source.require_same(slide_id)


def explained(archive: Archive, query: Query, hit: SlideRecord, evidence: Evidence) -> Explained:
    """Combine evidence with the slide files of both sides."""
    if evidence.query.slides:
        rows = [archive.catalog.slides.get(slide_id) for slide_id in dict.fromkeys(evidence.query.slides)]
        asked = {row.id: PixelSource.of(archive, row.record) for row in rows if row is not None}
    elif query.slide_path is None:
        asked = {}
    else:
        asked = {query.record.id: PixelSource.of(archive, query.record, query.slide_path)}
    found = {hit.id: PixelSource.of(archive, hit)}
    return Explained(
        evidence,
        Side("query", query.record.id, evidence.query, evidence.parts, asked),
        Side("hit", hit.id, evidence.hit, evidence.hit_parts, found),
    )


def open_pixels(source: PixelSource, slide_id: str) -> tuple[OpenedSlide, bool]:
    """Open a slide to draw its patches, and return whether its resolution is known.

    Patches are in pixels, so a slide of unknown resolution can be shown too, without a scale bar.
    """
    source.require_same(slide_id)
    try:
        return open_slide(source.path, slide_id, source.mpp), True
    except SlideError:
        if source.mpp is not None:
            raise
        return open_slide(source.path, slide_id, 1.0), False


@dataclass(frozen=True, slots=True, eq=False)
class PatchPicture:
    """The square of a patch. pixels: RGB uint8 (n, n, 3). extent: its side in µm, None if the slide's is unknown."""

    pixels: UInt8
    extent: float | None


def patch_pictures(side: Side, numbers: list[int], size: int) -> dict[int, PatchPicture]:
    """Read the squares of some patches, `size` pixels wide, by patch number."""
    pictures: dict[int, PatchPicture] = {}
    for slide_id in dict.fromkeys(side.slide_of(number) for number in numbers):
        slide, known = open_pixels(side.sources[slide_id], slide_id)
        with slide:
            for number in numbers:
                if side.slide_of(number) == slide_id:
                    x, y = side.squares.xy[number]
                    extent = slide.mpp * float(side.squares.side[number])
                    pixels = slide.read((int(x), int(y)), size, extent / size)
                    pictures[number] = PatchPicture(pixels, extent if known else None)
    return pictures
