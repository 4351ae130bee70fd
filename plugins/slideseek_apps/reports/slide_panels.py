"""What a report shows for one slide: thumbnail, patch outlines, some enlarged patches, and metadata."""

from __future__ import annotations

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import unpack_patches
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import OpenedSlide
from slideseek.searching.patch_squares import PatchSquares
from slideseek.searching.queries import Query
from slideseek.types import Patches, SlideRecord, UInt8
from slideseek_apps.reports.explained_match import PixelSource, Side, open_pixels
from slideseek_apps.reports.heat_colours import HeatScale
from slideseek_apps.reports.report_page import Panel
from slideseek_apps.reports.sharing import IDENTIFIED, Sharing

THUMBNAIL_SIDE = 480
PATCH_SIDE = 96
MOSAIC_SHOWN = 8


class Panels:
    """Make the panel of each slide once, even if it is a hit of several queries."""

    def __init__(self, archive: Archive, sharing: Sharing = IDENTIFIED) -> None:
        self._archive = archive
        self._sharing = sharing
        self._stages = StageCache(archive, lambda _: None)
        self._made: dict[tuple[str, str], Panel] = {}

    def stored(self, record: SlideRecord, engine: Engine) -> Panel:
        """Return the panel of an archived slide with the patches selected by an engine."""
        name = record.id, engine.select_digest
        if name not in self._made:
            source = PixelSource.of(self._archive, record)
            patches = self._patches(record, engine)
            self._made[name] = self._make(record, source, patches)
        return self._made[name]

    def query(self, query: Query) -> Panel:
        """Return the panel of a query with the patches that were searched, such as those of a region."""
        if query.slide_path is None:
            shown = self._sharing.record(query.record)
            why = "a case has several slides" if query.squares().slides else "text has none"
            return Panel(shown.id, {**self._facts(shown), "picture": why})
        return self._make(query.record, PixelSource.of(self._archive, query.record, query.slide_path), query.squares())

    def heated(self, record: SlideRecord, side: Side, heat: HeatScale) -> Panel:
        """Return the panel of a hit whose patches are coloured by their contribution."""
        return self._make(record, side.sources[side.slide_ids[0]], side.squares, heat.colours(side.parts))

    def _make(
        self,
        record: SlideRecord,
        source: PixelSource,
        patches: Patches | PatchSquares | None,
        heat: UInt8 | None = None,
    ) -> Panel:
        shown = self._sharing.record(record)
        known = self._facts(shown)
        if patches is not None:
            known["patches"] = str(len(patches))
        try:
            slide, has_scale = open_pixels(source, record.id)
        except SlideseekError as error:
            cause = "the slide cannot be read" if self._sharing.shareable else error.cause  # it may have a path
            return Panel(shown.id, {**known, "picture": cause})
        with slide:
            squares = PatchSquares.of(patches, slide.mpp) if isinstance(patches, Patches) else patches
            thumbnail = slide.thumbnail(THUMBNAIL_SIDE)
            scale = thumbnail.shape[1] / slide.dimensions[0]
            boxes, mosaic = _squares(slide, squares, scale) if squares is not None else ([], [])
            mpp = slide.mpp / scale if has_scale else 0.0
            return Panel(shown.id, known, thumbnail, boxes, mosaic, mpp, heat)

    def _facts(self, shown: SlideRecord) -> dict[str, str]:
        listed = {name: shown.fields[name] for name in self._sharing.fields if shown.fields.get(name)}
        return {**shown.readable_facts(), **listed}

    def _patches(self, record: SlideRecord, engine: Engine) -> Patches | None:
        slide = self._archive.catalog.slides.get(record.id)
        if slide is None:
            return None
        payload = self._archive.catalog.payload(self._stages.key(engine, "select", slide))
        return unpack_patches(payload, record.id) if payload else None


def _squares(
    slide: OpenedSlide, squares: PatchSquares, scale: float
) -> tuple[list[tuple[float, float, float, float]], list[UInt8]]:
    """Return the boxes of patches in thumbnail pixels, and some enlarged patches."""
    boxes = [
        (float(x * scale), float(y * scale), float(side * scale), float(side * scale))
        for (x, y), side in zip(squares.xy, squares.side)
    ]
    mosaic = []
    for at in _spread(len(squares), MOSAIC_SHOWN):
        x, y = squares.xy[at]
        mosaic.append(slide.read((int(x), int(y)), PATCH_SIDE, slide.mpp * float(squares.side[at]) / PATCH_SIDE))
    return boxes, mosaic


def _spread(count: int, shown: int) -> list[int]:
    """Choose at most `shown` of `count` positions, evenly spread."""
    return list(range(count)) if count <= shown else [round(i * (count - 1) / (shown - 1)) for i in range(shown)]
