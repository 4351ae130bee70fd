"""Export selected patches as GeoJSON, one file per slide, for QuPath and other viewers."""

from __future__ import annotations

import json
from typing import Any

from slideseek.archive.archive import Archive
from slideseek.archive.files import safe_name
from slideseek.archive.manifest import Problem
from slideseek.archive.payloads import unpack_patches
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.indexing.stage_cache import StageCache
from slideseek.types import Patches
from slideseek_apps.interchange.export_output import Destination, ExportSummary, SlideChoice


def export_patches(archive: Archive, engine: Engine, choice: SlideChoice, destination: Destination) -> ExportSummary:
    """Write the patches of slides as rectangles. Damaged patches are a problem; the others are written."""
    summary = ExportSummary()
    stages = StageCache(archive, summary.notes.append)
    ready = [row for row in choice.rows if stages.done(engine, "select", row)]
    missing = sorted({row.id for row in choice.rows} - {row.id for row in ready})
    fix = "run 'slideseek build'; features imported without coords have no patches"
    choice.leave_out(missing, f"patches of engine {engine.name!r}", fix, summary)
    paths = destination.claim([f"{safe_name(destination.sharing.slide(row.id))}.geojson" for row in ready])
    for row, path in zip(ready, paths):
        payload = archive.catalog.payload(stages.key(engine, "select", row))
        try:
            if payload is None:
                raise SlideseekError("its patches are missing", "run 'slideseek build'")
            shapes = rectangles(unpack_patches(payload, row.id), float(payload.meta["slide_mpp"]))
        except SlideseekError as error:
            summary.problems.append(Problem(row.id, error.cause, error.fix))
            continue
        with destination.writing(path) as temporary:
            temporary.write_text(json.dumps(shapes, separators=(",", ":")), encoding="utf-8")
        summary.wrote(path, destination.sharing.slide(row.id))
    return summary


def rectangles(patches: Patches, slide_mpp: float) -> dict[str, Any]:
    """Return patches as a FeatureCollection of rectangles in level-0 pixels; QuPath shows each as a tile."""
    features = []
    for number, ((x, y), mpp) in enumerate(zip(patches.xy.tolist(), patches.mpp.tolist())):
        extent = round(patches.size * mpp / slide_mpp, 3)
        right, bottom = x + extent, y + extent
        ring = [[x, y], [right, y], [right, bottom], [x, bottom], [x, y]]
        scores = {name: round(float(values[number]), 4) for name, values in patches.scores.items()}
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Polygon", "coordinates": [ring]},
                "properties": {"objectType": "tile", "name": f"patch {number}", "mpp": mpp, **scores},
            }
        )
    return {"type": "FeatureCollection", "features": features}
