"""How much of the tissue of each slide lies in patches to choose from, as an archive stores it or measured now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import unpack_patches
from slideseek.archive.slide_table import SlideRow
from slideseek.config import EngineConfig
from slideseek.engine import Engine, make_engine
from slideseek.errors import SlideseekError
from slideseek.indexing.live_index import open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import load_registry
from slideseek.slides.discovery import find_slides
from slideseek.slides.reader import open_slide
from slideseek.types import Patches


@dataclass(frozen=True, slots=True)
class Coverage:
    """The tissue of one slide: its area, that of the part in no patch to choose from, and the share in one.

    problem: why figures are missing, "" if they are not. patches: how many were chosen.
    """

    slide: str
    patches: int = 0
    tissue_um2: float | None = None
    left_out_um2: float | None = None
    represented: float | None = None
    problem: str = ""

    @classmethod
    def of(cls, slide: str, patches: Patches) -> Coverage:
        """Return the coverage that a selector measured."""
        areas = [None if area is None else round(area) for area in (patches.tissue_um2, patches.left_out_um2)]
        share = patches.represented
        if areas[0] is None:
            problem = "the selector does not measure it"
        else:
            problem = "" if areas[0] else "no tissue found"
        return cls(slide, len(patches), areas[0], areas[1], None if share is None else round(share, 4), problem)


def coverage_of_files(paths: Sequence[Path], config: EngineConfig, mpp: float | None) -> Iterator[Coverage]:
    """Yield the coverage of slide files, and of those in folders. mpp: µm per pixel stated by the user."""
    engine = make_engine(config, load_registry(), probe=False)
    for path in find_slides(paths):
        yield _measured(engine, path.stem, path, mpp, None)


def coverage_of_archive(archive: Archive, config: EngineConfig, wanted: Sequence[str] = ()) -> Iterator[Coverage]:
    """Yield the coverage of an archive's slides, or of the wanted ids: as stored, or measured where it is not."""
    engine = open_engine(archive, config, archive.registry())
    stages = StageCache(archive, lambda _: None)
    for row in archive.catalog.slides.some(wanted or archive.catalog.slides.ids()):
        yield _stored(archive, engine, stages, row) or _measured(
            engine,
            row.id,
            archive.slide_path(row.record),
            row.record.mpp,
            archive.root / row.record.contours if row.record.contours else None,
        )


def _stored(archive: Archive, engine: Engine, stages: StageCache, row: SlideRow) -> Coverage | None:
    payload = archive.catalog.payload(stages.key(engine, "select", row))
    if payload is None or "tissue_um2" not in payload.meta:
        return None
    return Coverage.of(row.id, unpack_patches(payload, row.id))


def _measured(engine: Engine, name: str, path: Path, mpp: float | None, contours: Path | None) -> Coverage:
    try:
        with open_slide(path, name, mpp) as slide:
            slide.contours = contours
            return Coverage.of(name, engine.select(slide))
    except SlideseekError as error:  # one unreadable slide is one line
        return Coverage(name, problem=error.cause)
