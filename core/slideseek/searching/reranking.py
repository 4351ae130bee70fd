"""The second stage of a search: options given with the query, and comparing the patches of the nearest slides."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slideseek.archive.bags import ArchiveBags
from slideseek.boundary import CheckedIndex, Owner
from slideseek.did_you_mean import did_you_mean
from slideseek.engine import Engine
from slideseek.errors import ParameterError, PluginError, UsageError
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import MeasuresRows, Reranker, implements
from slideseek.options import changed_copy, query_options
from slideseek.plugins import ComponentKind
from slideseek.types import Bag, Hit


@dataclass(frozen=True, slots=True)
class Tuned:
    """What one search uses instead of the engine's own; index is None where that is used unchanged."""

    index: CheckedIndex | None
    reranker: Reranker | None


def tune(
    index: CheckedIndex, reranker: Reranker | None, options: Sequence[str], owner: Callable[[ComponentKind], Owner]
) -> Tuned:
    """Return the index and the reranker with other values of options that may be given with a query.

    options: `name=value` with a value as in TOML, or `index.name=value` where both have an option of that name.
    owner: who answers for the component of a kind.
    """
    parts: dict[ComponentKind, Any] = {"index": index.inner, "reranker": reranker}
    known = {kind: query_options(part) for kind, part in parts.items() if part is not None}
    given: dict[ComponentKind, dict[str, Any]] = {kind: {} for kind in known}
    for text in options:
        path, value = _parsed(text)
        kind, _, name = path.rpartition(".")
        holders = [one for one, names in known.items() if name in names and kind in ("", one)]
        if not holders:
            names = sorted({name for names in known.values() for name in names})
            cause, listed = f"the engine has no option {path!r} that can be given with a query", ", ".join(names)
            if not names:
                raise UsageError(cause, f"omit {path}: neither its index nor its reranker has such options")
            raise ParameterError("options", f"{cause}; {did_you_mean(name, names, f'it has {listed}')}")
        if len(holders) > 1:
            cause = f"both the index and the reranker have an option {name!r}"
            raise ParameterError("options", f"{cause}: write index.{name} or reranker.{name}")
        given[holders[0]][name] = value
    made: dict[ComponentKind, Any] = {}
    for kind, values in given.items():
        try:
            part = parts[kind]
            made[kind] = owner(kind).call("__post_init__()", changed_copy, part, values) if values else part
        except PluginError:
            raise
        except UsageError as error:
            raise ParameterError("options", f"{owner(kind)}: {error.cause}", error.fix) from error
    return Tuned(index.with_inner(made["index"]) if given["index"] else None, made.get("reranker"))


def _parsed(text: str) -> tuple[str, Any]:
    """Return the name and the value of `name=value`; a value that is not TOML is text."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise ParameterError("options", f"{text!r} is not NAME=VALUE")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except ValueError:  # not TOML, or a number with more digits than Python reads
        return name, value


def unit_of(reranker: Reranker) -> str:
    """Return the unit of a reranker's distances: what it says a distance is, "" if it does not."""
    return reranker.distance_name if implements(reranker, MeasuresRows) else ""


def reranked(stages: StageCache, engine: Engine, reranker: Reranker, query: Bag, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits with the reranker's distances, nearest first, equal distances by slide id."""
    owner, rows = engine.owner("reranker"), stages.catalog.slides.some([hit.slide_id for hit in hits])
    bags = ArchiveBags(stages.archive.bag, [(row.record, stages.key(engine, "featurize", row)) for row in rows])
    distances = owner.check_distances(owner.call("distances()", reranker.distances, query, bags), len(rows))
    found = [Hit(row.id, distance) for row, distance in zip(rows, distances.tolist(), strict=True)]
    return sorted(found, key=lambda hit: (hit.distance, hit.slide_id))
