"""Write evidence to files for other tools."""

from __future__ import annotations

import json
from pathlib import Path

from slideseek.archive.files import safe_name, write_text
from slideseek_apps.reports.geojson import side_geojson
from slideseek_apps.reports.sides import Explained


def write_geojson(found: Explained, target: Path) -> list[Path]:
    """Write the patches of each slide to a file of its own beside `target`; return the files.

    Of `match.geojson` come `match.query.geojson` and `match.hit.geojson`; a case has a file a slide, with its id.
    """
    stem = target.name.removesuffix(".json").removesuffix(".geojson")
    written = []
    for side in (found.query, found.hit):
        for slide_id in side.slide_ids:
            inner = f".{safe_name(slide_id)}" if len(side.slide_ids) > 1 else ""
            path = target.with_name(f"{stem}.{side.name}{inner}.geojson")
            shapes = side_geojson(found.evidence, side, slide_id)
            write_text(path, json.dumps(shapes, separators=(",", ":")))
            written.append(path)
    return written
