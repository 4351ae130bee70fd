"""Answers and evidence as plain data, for JSON, CSV, pages and other programs. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slideseek.searching.calibration import Calibration
    from slideseek.searching.evidence import Evidence
    from slideseek.searching.patch_squares import Fields
    from slideseek.searching.searcher import Answer
    from slideseek.types import Float64, SlideRecord

CSV_HEADER = ("rank", "slide_id", "distance", "patient", "site", "label", "center", "vote", "confidence")


def answer_data(
    answer: Answer,
    evidence: Mapping[str, Evidence] | None = None,
    top: int = 5,
    calibration: Mapping[str, Calibration] | None = None,
) -> dict[str, Any]:
    """Return an answer as plain data.

    evidence: by slide id, of which the `top` pairs or patches a hit are given. calibration: by site and label, what
    the same agreement was worth for slides of the archive.
    """
    hits = []
    for found in answer.found:
        hit = {"rank": found.rank, "slide_id": found.hit.slide_id, "distance": found.hit.distance}
        hit |= record_data(found.record)
        if evidence is not None:
            hit["evidence"] = evidence_data(evidence[found.hit.slide_id], top)
        hits.append(hit)
    return {
        "query": record_data(answer.query),
        "engine": answer.engine,
        "mode": answer.mode,
        "candidates": answer.candidates,
        "milliseconds": round(answer.milliseconds, 3),
        "votes": {name: vote_data(answer, name, calibration) for name in answer.votes},
        "hits": hits,
        "notes": list(answer.notes),
    }


def record_data(record: SlideRecord) -> dict[str, Any]:
    """Return what is known about a slide as plain data."""
    return {
        "slide_id": record.id,
        "patient": record.patient,
        "site": record.site,
        "label": record.label,
        "center": record.center,
        "path": record.path,
        "fields": dict(record.fields),
    }


def vote_data(answer: Answer, name: str, calibration: Mapping[str, Calibration] | None = None) -> dict[str, Any]:
    """Return what the hits voted for and how far they agree, as plain data."""
    value, hits = answer.votes[name]
    confidence = answer.confidence(name)
    data = {"value": value, "hits": hits, "labelled": confidence.labelled, "confidence": round(confidence.share, 4)}
    if calibration is not None:
        right, asked = calibration[name].at(confidence.share)
        data["calibration"] = {"right": right, "asked": asked}
    return data


def csv_rows(answer: Answer) -> list[list[Any]]:
    """Return a row a hit under `CSV_HEADER`; vote and confidence are those of the label, the same in every row."""
    vote = answer.votes.get("label", ("", 0))[0]
    confidence = round(answer.confidence("label").share, 4) if vote else ""
    rows = []
    for found in answer.found:
        about = {**record_data(found.record), "rank": found.rank, "distance": found.hit.distance}
        rows.append([{**about, "vote": vote, "confidence": confidence}[name] for name in CSV_HEADER])
    return rows


def evidence_data(evidence: Evidence, top: int | None = None) -> dict[str, Any]:
    """Return the `top` pairs or patches of some evidence as plain data, all of them for None.

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
                    "query": square_data(evidence.query, pair.query),
                    "hit": square_data(evidence.hit, pair.hit),
                }
                for pair in evidence.pairs[:top]
            ]
        }
    return data | {
        "query": _largest(evidence.query, evidence.parts, top),
        "hit": _largest(evidence.hit, evidence.hit_parts, top),
    }


def square_data(fields: Fields, patch: int) -> dict[str, Any]:
    """Return one patch's number and square as plain data, with its slide where there are several."""
    (x, y), side = fields.xy[patch].tolist(), round(float(fields.side[patch]), 3)
    slide = {"slide_id": fields.slides[patch]} if fields.slides else {}
    return {"patch": patch, "x": x, "y": y, "side": side, **slide}


def _largest(fields: Fields, parts: Float64, top: int | None) -> list[dict[str, Any]]:
    """Return the patches that add most, the largest part first."""
    order = (-parts).argsort(kind="stable")[:top].tolist()
    return [{**square_data(fields, patch), "part": float(parts[patch])} for patch in order]
