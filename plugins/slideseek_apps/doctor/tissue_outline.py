"""The tissue of a mask as GeoJSON for QuPath: exact rings around its objects, along pixel edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import ndimage

from slideseek.types import Float64, Mask


def geojson_from_mask(mask: Mask, scale_x: float, scale_y: float, name: str = "Tissue") -> dict[str, Any]:
    """Return a FeatureCollection with one Polygon per connected object of the mask, holes included.

    mask: bool (h, w). scale_x, scale_y: level-0 pixels per mask pixel. name: the class QuPath shows. The contours run
    along pixel edges, so filling them restores exactly the mask.
    """
    scale = np.array([scale_x, scale_y])
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [(ring * scale).tolist() for ring in rings]},
            "properties": {"objectType": "annotation", "classification": {"name": name}},
        }
        for rings in outlines(mask)
    ]
    return {"type": "FeatureCollection", "features": features}


def outlines(mask: Mask) -> list[list[Float64]]:
    """Return the closed rings of each 4-connected object: the outer one first, then its holes.

    mask: bool (h, w). A ring is float64 (n, 2), x and y of pixel corners, the first point repeated at the end.
    """
    labels, count = ndimage.label(mask)
    objects: list[list[Float64]] = [[] for _ in range(count)]
    leaving = _edges(mask)
    stride = mask.shape[1] + 1
    edges = [bytearray(edge.tobytes()) for edge in leaving]
    for y, x in np.argwhere(leaving[0]).tolist():
        if edges[0][y * stride + x]:
            # Scanning down the rows, an object's outer ring comes before any of its holes.
            objects[labels[y, x] - 1].append(_trace(edges, stride, y * stride + x))
    return objects


def _edges(mask: Mask) -> list[Mask]:
    """Return four bool (h + 1, w + 1): whether an edge leaves corner (y, x) to the right, down, left, up.

    The object lies to the right of every edge in walking direction.
    """
    inside = np.pad(mask, 1)
    core = inside[1:-1, 1:-1]
    edges = [np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), dtype=np.bool_) for _ in range(4)]
    edges[0][:-1, :-1] = core & ~inside[:-2, 1:-1]
    edges[1][:-1, 1:] = core & ~inside[1:-1, 2:]
    edges[2][1:, 1:] = core & ~inside[2:, 1:-1]
    edges[3][1:, :-1] = core & ~inside[1:-1, :-2]
    return edges


def _trace(edges: list[bytearray], stride: int, start: int) -> Float64:
    """Follow the edges from corner `start` to the right until they close, and remove them.

    A corner is numbered y * stride + x. Returns the corners where the ring turns.
    """
    steps = (1, stride, -1, -stride)
    corners, at, heading = [start], start, 0
    while True:
        at += steps[heading]
        # Try the sharpest turn towards the object first: objects that touch only at a corner stay separate.
        turn = next(turn % 4 for turn in (heading + 1, heading, heading + 3) if edges[turn % 4][at])
        edges[turn][at] = 0
        if turn != heading:
            corners.append(at)
        if (at, turn) == (start, 0):
            break
        heading = turn
    y, x = np.divmod(np.array(corners), stride)
    return np.stack([x, y], axis=1).astype(np.float64)
