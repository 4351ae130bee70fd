"""Answers and evidence as plain data: one shape for `--json`, the HTTP API, exports and other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slideseek.searching.calibration import Calibration
    from slideseek.searching.evidence import Evidence
    from slideseek.searching.patch_squares import PatchSquares
    from slideseek.searching.searcher import Answer
    from slideseek.searching.votes import Vote
    from slideseek.types import Float64, SlideRecord

CSV_HEADER = ("rank", "slide_id", "distance", "patient", "site", "label", "center", "vote", "confidence")


def slide_json(record: SlideRecord) -> dict[str, Any]:
    """Return a slide's record as plain data, with the path of its file."""
    return {**record.facts(), "path": record.path}


def answer_json(
    answer: Answer,
    evidence: Mapping[str, Evidence] | None = None,
    top: int = 5,
    calibration: Mapping[str, Calibration] | None = None,
    slide: Callable[[SlideRecord], dict[str, Any]] = slide_json,
) -> dict[str, Any]:
    """Return an answer as plain data.

    evidence: by slide id; the `top` pairs or patches per hit are included. calibration: by site and label, how often
    the same agreement was right for slides of the archive. slide: returns a slide as plain data; a front end that must
    not expose file paths passes its own.
    """
    hits = []
    for found in answer.found:
        hit: dict[str, Any] = {
            "rank": found.rank,
            "distance": found.hit.distance,
            "agrees": answer.agrees(found),
            "slide": slide(found.record),
        }
        if evidence is not None:
            hit["evidence"] = evidence_json(evidence[found.hit.slide_id], top)
        hits.append(hit)
    return {
        "query": slide(answer.query),
        "engine": answer.engine,
        "unit": answer.unit,
        "mode": answer.mode,
        "candidates": answer.candidates,
        "milliseconds": round(answer.milliseconds, 3),
        "votes": {name: _vote(vote, name, calibration) for name, vote in answer.votes.items()},
        "hits": hits,
        "notes": list(answer.notes),
    }


def _vote(vote: Vote, name: str, calibration: Mapping[str, Calibration] | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "value": vote.value,
        "agreeing": vote.agreeing,
        "labelled": vote.labelled,
        "hits": vote.hits,
        "confidence": round(vote.confidence, 4),
    }
    if calibration is not None:
        right, searched = calibration[name].at(vote.confidence)
        data["calibration"] = {"right": right, "searched": searched}
    return data


def csv_rows(answer: Answer) -> list[list[Any]]:
    """Return one row per hit under `CSV_HEADER`; vote and confidence are those of the label, the same in every row."""
    vote = answer.votes.get("label")
    shared = [vote.value, round(vote.confidence, 4)] if vote else ["", ""]
    rows = []
    for found in answer.found:
        record = found.record
        about = [record.patient, record.site, record.label, record.center]
        rows.append([found.rank, record.id, found.hit.distance, *about, *shared])
    return rows


def evidence_json(evidence: Evidence, top: int | None = None) -> dict[str, Any]:
    """Return the `top` pairs or patches of some evidence as plain data; all of them if `top` is None.

    Squares are in level-0 pixels of their slide: x and y of the top-left corner, and the side.
    """
    data: dict[str, Any] = {
        "kind": evidence.kind,
        "value": evidence.value,
        "patches": {"query": len(evidence.query), "hit": len(evidence.hit)},
    }
    if evidence.kind == "pairs":
        return data | {
            "pairs": [
                {
                    "distance": pair.distance,
                    "query": square_json(evidence.query, pair.query),
                    "hit": square_json(evidence.hit, pair.hit),
                }
                for pair in evidence.pairs[:top]
            ]
        }
    return data | {
        "query": _largest(evidence.query, evidence.parts, top),
        "hit": _largest(evidence.hit, evidence.hit_parts, top),
    }


def square_json(squares: PatchSquares, patch: int) -> dict[str, Any]:
    """Return one patch's number and square as plain data, with its slide if there are several."""
    (x, y), side = squares.xy[patch].tolist(), round(float(squares.side[patch]), 3)
    slide = {"slide_id": squares.slides[patch]} if squares.slides else {}
    return {"patch": patch, "x": x, "y": y, "side": side, **slide}


def _largest(squares: PatchSquares, parts: Float64, top: int | None) -> list[dict[str, Any]]:
    """Return the patches that contribute most, largest contribution first."""
    order = (-parts).argsort(kind="stable")[:top].tolist()
    return [{**square_json(squares, patch), "part": float(parts[patch])} for patch in order]
