"""What has changed in an archive since a query was logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slideseek.digests import canonical_json
from slideseek.searching.query_log import LogEntry, archive_state
from slideseek.searching.request import Result
from slideseek.searching.searcher import Searcher


def changes_since(entry: LogEntry, searcher: Searcher, result: Result) -> list[str]:
    """List what has changed in an archive since a query was logged, as far as it may affect the answer."""
    then, current, answer = entry.state, archive_state(searcher, result), result.answer
    changes = [f"option {change}" for change in _options(entry.resolved, searcher.engine.resolved.settings)]
    if then["model"] != current["model"]:
        changes.append("model: the encoder was fitted again")
    if then["codes"] == current["codes"] and then["generation"] != current["generation"]:
        changes.append(f"index: the codes are of generation {current['generation']}, were {then['generation']}")
    if then["indexed"] != current["indexed"]:
        changes.append(f"slides: {current['indexed']} in the index, were {then['indexed']}")
    if entry.answer["candidates"] != answer.candidates:
        changes.append(f"candidates: {answer.candidates} pass the filters, were {entry.answer['candidates']}")
    if then["query"] != current["query"]:
        changes.append("query: its pixels have changed")
    for slide_id, content in then["contents"].items():
        row = searcher.archive.catalog.slides.get(slide_id)
        if row is None:
            changes.append(f"slide {slide_id!r}, a hit at that time, is no longer in the archive")
        elif row.fingerprint != content:
            changes.append(f"slide {slide_id!r}, a hit at that time, has other pixels now")
    return changes


def _options(then: Mapping[str, Any], current: Mapping[Any, Mapping[str, Any]]) -> list[str]:
    """List the options that differ between two resolved engines, as `encoder.bits: 64, was 32`."""
    found = []
    for kind in dict.fromkeys([*current, *then]):  # an engine may have had a reranker, or have one now
        before, after = dict(then.get(kind, {})), dict(current.get(kind, {}))
        for name in sorted(before.keys() | after.keys()):
            # Compared as JSON, which is how the log stores them: a tuple comes back as a list.
            old, new = (canonical_json(one.get(name)) for one in (before, after))
            if old != new:
                found.append(f"{kind}.{name}: {new}, was {old}")
    return found
