"""Gather what a search report shows: thumbnails, selected patches and facts of the query and its hits."""

from __future__ import annotations

from collections.abc import Sequence

from slideseek import __version__
from slideseek.archive.archive import Archive
from slideseek.archive.payloads import unpack_patches
from slideseek.building.ledger import Ledger
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.keys import canonical_json
from slideseek.report.page import HitPanel, Panel, QuerySection, Report, Table
from slideseek.search import Answer
from slideseek.slides.reader import open_slide
from slideseek.types import Patches, SlideRecord, UInt8

THUMBNAIL_SIDE = 480
PATCH_SIDE = 96
MOSAIC_SHOWN = 8


def search_report(
    archive: Archive, engines: Sequence[Engine], answers: Sequence[Answer], title: str, tables: Sequence[Table] = ()
) -> Report:
    """Make the report of some answers; a slide whose file is gone is shown without pictures."""
    by_name = {engine.name: engine for engine in engines}
    panels = _Panels(archive)
    sections = [
        QuerySection(
            query=panels.panel(answer.query, by_name[answer.engine]),
            engine=answer.engine,
            mode=answer.mode,
            votes={
                ("diagnosis" if name == "label" else name): f"{value} ({hits} of {len(answer.found)})"
                for name, (value, hits) in answer.votes.items()
            },
            hits=[
                HitPanel(
                    rank=found.rank,
                    distance=found.hit.distance,
                    agrees=_agrees(answer.query, found.record),
                    panel=panels.panel(found.record, by_name[answer.engine]),
                )
                for found in answer.found
            ],
            notes=answer.notes,
            milliseconds=answer.milliseconds,
        )
        for answer in answers
    ]
    facts = {"archive": archive.root.name, "slides": str(len(archive.catalog.slides)), "slideseek": __version__}
    for engine in engines:
        facts[f"engine {engine.name}"] = "; ".join(
            f"{kind}: {canonical_json(chosen)}" for kind, chosen in engine.resolved.settings.items()
        )
    return Report(title, f"Nearest slides in {archive.root.name}", facts, tables, sections)


class _Panels:
    """Make the panel of each slide once, though it may be a hit of several queries."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._ledger = Ledger(archive, lambda _: None)
        self._made: dict[tuple[str, str], Panel] = {}

    def panel(self, record: SlideRecord, engine: Engine) -> Panel:
        name = record.id, engine.select_settings
        if name not in self._made:
            self._made[name] = self._make(record, engine)
        return self._made[name]

    def _make(self, record: SlideRecord, engine: Engine) -> Panel:
        patches = self._patches(record, engine)
        facts = {"patient": record.patient, "site": record.site, "diagnosis": record.label, "centre": record.center}
        facts = {name: value for name, value in facts.items() if value}
        if patches is not None:
            facts["patches"] = str(len(patches))
        try:
            with open_slide(self._archive.slide_path(record), record.id, record.mpp) as slide:
                thumbnail = slide.thumbnail(THUMBNAIL_SIDE)
                scale = thumbnail.shape[1] / slide.dimensions[0]
                boxes: list[tuple[float, float, float, float]] = []
                mosaic: list[UInt8] = []
                if patches is not None:
                    for (x, y), mpp in zip(patches.xy, patches.mpp):
                        extent = patches.size * mpp / slide.mpp * scale
                        boxes.append((float(x * scale), float(y * scale), float(extent), float(extent)))
                    for at in _spread(len(patches), MOSAIC_SHOWN):
                        field = patches.size * float(patches.mpp[at])
                        x, y = patches.xy[at]
                        mosaic.append(slide.read((int(x), int(y)), PATCH_SIDE, field / PATCH_SIDE))
                return Panel(record.id, facts, thumbnail, boxes, mosaic, slide.mpp / scale)
        except SlideseekError as error:
            return Panel(record.id, {**facts, "picture": error.cause}, None, [], [], 1.0)

    def _patches(self, record: SlideRecord, engine: Engine) -> Patches | None:
        slide = self._archive.catalog.slides.get(record.id)
        if slide is None:
            return None
        payload = self._archive.catalog.payload(self._ledger.key(engine, "select", slide))
        return unpack_patches(payload, record.id) if payload else None


def _spread(count: int, shown: int) -> list[int]:
    """Choose at most `shown` of `count` positions, evenly spread."""
    return list(range(count)) if count <= shown else [round(i * (count - 1) / (shown - 1)) for i in range(shown)]


def _agrees(query: SlideRecord, hit: SlideRecord) -> bool | None:
    return query.label == hit.label if query.label and hit.label else None
