"""Write evidence as GeoJSON for QuPath: one tile per patch, in level-0 pixels, with measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from slideseek.archive.files import safe_name, write_text
from slideseek.searching.evidence import Evidence
from slideseek_apps.reports.explained_match import Explained, Side
from slideseek_apps.reports.heat_colours import HeatScale

PREFIX = "slideseek"
"""Prefix of the measurement names, which keeps them together in QuPath's tables and measurement maps."""


def write_geojson(found: Explained, target: Path) -> list[Path]:
    """Write one file per slide next to `target` and return the files.

    `match.geojson` gives `match.query.geojson` and `match.hit.geojson`. A case has one file per slide, with its id.
    """
    stem = target.name.removesuffix(".json").removesuffix(".geojson")
    written = []
    for side in found.sides:
        for slide_id in side.slide_ids:
            inner = f".{safe_name(slide_id)}" if len(side.slide_ids) > 1 else ""
            path = target.with_name(f"{stem}.{side.name}{inner}.geojson")
            shapes = side_geojson(found.evidence, side, slide_id)
            write_text(path, json.dumps(shapes, separators=(",", ":")))
            written.append(path)
    return written


def side_geojson(evidence: Evidence, side: Side, slide_id: str) -> dict[str, Any]:
    """Return the patches of one slide of a side as a FeatureCollection.

    Tiles are detections, which QuPath's measurement maps can colour. `heat` runs from 0 to 1 like the colours, on one
    scale for both slides; the other measurements are the raw numbers.
    """
    scale = HeatScale.over(evidence.parts, evidence.hit_parts)
    paint, heat = scale.colours(side.parts), scale.places(side.parts)
    ranks = np.argsort(np.argsort(-side.parts, kind="stable"), kind="stable") + 1
    partners = {pair.query: pair.hit for pair in evidence.pairs} if side.name == "query" else {}
    features = []
    for number in side.patches_on(slide_id):
        part = float(side.parts[number])
        measured = {"rank": int(ranks[number]), "heat": round(float(heat[number]), 6)}
        if evidence.kind == "pairs":
            measured["distance"] = -part
        else:
            measured["contribution"] = part
            if evidence.share(part):
                measured["share"] = part / evidence.value
        if number in partners:
            measured["hit patch"] = partners[number]
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Polygon", "coordinates": [_ring(side, number)]},
                "properties": {
                    "objectType": "tile",
                    "name": f"patch {number}",
                    "color": [int(channel) for channel in paint[number]],
                    "measurements": {f"{PREFIX} {name}": value for name, value in measured.items()},
                },
            }
        )
    return {"type": "FeatureCollection", "features": features}


def _ring(side: Side, number: int) -> list[list[float]]:
    x, y = (float(value) for value in side.squares.xy[number])
    right, bottom = (round(corner + float(side.squares.side[number]), 3) for corner in (x, y))
    return [[x, y], [right, y], [right, bottom], [x, bottom], [x, y]]
