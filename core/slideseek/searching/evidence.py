"""Why a slide was found: the patch pairs or the patch contributions behind the distance a search shows.

Codes that are sets (one row per patch) are explained by pairs: each patch and its nearest patch in the other slide.
Codes of one row are explained by contributions, if the encoder can split a similarity over patches (`Attributable`).
Either way the parts are checked against the index's distance: the evidence always matches the search result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from slideseek.archive.payloads import unpack_code
from slideseek.archive.slide_table import SlideRow
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import PluginError, SlideseekError, UsageError
from slideseek.interfaces import Attributable, SetIndex
from slideseek.searching.located_bags import LocatedBag, stored_bag
from slideseek.searching.patch_squares import PatchSquares
from slideseek.searching.queries import Query
from slideseek.searching.searcher import Searcher
from slideseek.types import Code, Float32, Float64, UInt8

EvidenceKind: TypeAlias = Literal["pairs", "contributions"]

AGREEMENT = 1e-3
"""Largest relative difference allowed between the sum of the parts and the index's distance: rounding only."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A patch of the query and the most similar patch of the hit: their numbers, and the distance of their rows.

    The distance is the index's: the number of differing bits for bit codes, 1 - cosine for floats.
    """

    query: int
    hit: int
    distance: float


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What made a hit similar to the query.

    value: for `pairs` the distance of the two sets, for `contributions` the similarity, which is the sum of the parts.
    query, hit: the squares of the patches. pairs: one per query patch, nearest first; none for contributions.
    parts: float64 (n_query,), the contribution of each patch of the query; for pairs, minus the distance of its pair,
    so higher always means more similar. hit_parts: float64 (n_hit,), the same for the patches of the hit.
    """

    kind: EvidenceKind
    value: float
    query: PatchSquares
    hit: PatchSquares
    pairs: tuple[Pair, ...]
    parts: Float64
    hit_parts: Float64

    def share(self, part: float) -> str:
        """Format a part as a share of the whole; "" if the whole is zero."""
        return f"{part / self.value:.1%}" if abs(self.value) > 1e-12 else ""


def strongest(parts: Float64, count: int) -> list[int]:
    """Return the numbers of the patches with the largest parts, largest first."""
    return [int(number) for number in np.argsort(-parts, kind="stable")[:count]]


class Explainer:
    """Explain hits of one searcher; models are loaded when they are first needed."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def explain(self, query: Query, hit_id: str) -> Evidence:
        """Return what makes a slide of the index similar to a query.

        Raises `SlideseekError` if the codes can be neither paired nor attributed, if they are not comparable, and if
        stored features are missing.
        """
        shown = self._distance(query, hit_id)
        searcher, encoder = self._searcher, self._attributable()
        row, code = self._stored(hit_id)
        hit, mine = stored_bag(searcher.archive, searcher.engine, searcher.stages, row), query.located()
        if encoder is None:
            made = self._pairs(query.code, mine, code, hit)
        else:
            parts, hit_parts = encoder.contributions(mine.bag, code), encoder.contributions(hit.bag, query.code)
            made = Evidence("contributions", float(parts.sum()), mine.squares, hit.squares, (), parts, hit_parts)
        self._check(made, shown, hit_id)
        return made

    def _attributable(self) -> Attributable | None:
        """Return the encoder that splits similarities; None for sets, which are paired without the encoder."""
        if self._searcher.engine.spec.many:
            return None
        engine = self._searcher.queries.prepared()
        if not isinstance(engine.encoder, Attributable):
            raise SlideseekError(
                f"encoder {engine.config.encoder.use!r} of engine {engine.name!r} cannot attribute a similarity"
                " to patches",
                "use an engine whose encoder can (interface Attributable in the plugin reference)",
            )
        return engine.encoder

    def _pairs(self, query: Code, mine: LocatedBag, code: Code, hit: LocatedBag) -> Evidence:
        for one, bag in ((query, mine), (code, hit)):
            if len(one) != len(bag.squares):
                raise SlideseekError(
                    f"slide {one.slide_id!r} has {len(bag.squares)} patches and {len(one)} rows in its code,"
                    " so rows do not correspond to patches",
                    "use an engine whose encoder keeps one row per patch",
                )
        index = self._searcher.index
        if not isinstance(index, SetIndex):
            raise SlideseekError(
                f"index {self._searcher.engine.config.index.use!r} does not report how it compares two sets of patches",
                "use an engine whose index does (interface SetIndex in the plugin reference)",
            )
        between = row_distances(query.rows, code.rows)
        partner, forth, back = between.argmin(axis=1), between.min(axis=1), between.min(axis=0)
        order = np.argsort(forth, kind="stable")
        pairs = tuple(Pair(int(i), int(partner[i]), float(forth[i])) for i in order)
        return Evidence("pairs", index.set_distance(between), mine.squares, hit.squares, pairs, -forth, -back)

    def _distance(self, query: Query, hit_id: str) -> float:
        """Return the distance the index gives for one slide, as a search shows it."""
        ids = self._searcher.index.ids
        if hit_id not in ids:
            raise UsageError(
                f"slide {hit_id!r} is not in the index of engine {self._searcher.engine.name!r}",
                did_you_mean(hit_id, ids, "'slideseek status' lists the slides"),
            )
        distance = self._searcher.distance(query, hit_id)
        if distance is None:
            raise UsageError(
                f"the codes of {query.record.id!r} and {hit_id!r} cannot be compared: they belong to different sites",
                "compare slides of the same site: this encoder is conditioned on the site",
            )
        return distance

    def _stored(self, slide_id: str) -> tuple[SlideRow, Code]:
        """Return the catalogue's record of an indexed slide, and its code."""
        searcher = self._searcher
        row = searcher.archive.catalog.slides.get(slide_id)
        record = row and searcher.stages.record(searcher.engine, "encode", row)
        payload = record and searcher.archive.catalog.payload(record.key)
        if not row or not payload:
            raise SlideseekError(
                f"slide {slide_id!r} was changed or removed after the index was opened",
                "run 'slideseek build', then search again",
            )
        return row, unpack_code(payload, slide_id)

    def _check(self, made: Evidence, shown: float, hit_id: str) -> None:
        """Raise an error if the evidence does not match the distance the search shows."""
        spec = self._searcher.engine.spec
        unit = spec.width if spec.kind == "bits" else 1.0
        got = made.value if made.kind == "pairs" else (1.0 - made.value) * unit
        if abs(got - shown) > AGREEMENT * unit:
            raise PluginError(
                f"the patches of the query and {hit_id!r} give a distance of {got:.6g}, the index gives {shown:.6g}",
                "search again: the archive may have changed; if this persists, index and encoder do not match",
            )


def row_distances(query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
    """Return the distance of every query row to every target row: float64 (n, m).

    Packed bits: the number of differing bits. Floats: 1 - cosine; a zero row has cosine 0 with every row.
    """
    if query.dtype == np.uint8:
        found = np.empty((len(query), len(target)))
        for row, out in zip(query, found):
            out[:] = np.bitwise_count(np.bitwise_xor(target, row)).sum(axis=1, dtype=np.int64)
        return found
    lengths = np.outer(*(np.linalg.norm(rows.astype(np.float64), axis=1) for rows in (query, target)))
    dots = query.astype(np.float64) @ target.astype(np.float64).T
    cosines: Float64 = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
    return 1.0 - cosines
