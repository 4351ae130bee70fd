"""Why a slide was found: the patch pairs or the parts of patches behind the distance a search shows.

Codes that are sets (one row per patch) are explained by pairs: each patch and its nearest patch in the other slide. So
is a reranker, which compares the features of patches. Codes of one row are explained by contributions, if the encoder
can split their similarity over patches (`Attributable`) and the index compares by that similarity. Otherwise they are
explained by removals: how much the distance grows when a patch is left out. Every distance is the one that the index
or the reranker itself measures (`MeasuresRows`), and is checked against the one shown: the evidence always matches the
search result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from slideseek.archive.payloads import unpack_code
from slideseek.archive.slide_table import SlideRow
from slideseek.boundary import Owner
from slideseek.did_you_mean import did_you_mean
from slideseek.engine import Engine
from slideseek.errors import SlideseekError, UsageError
from slideseek.interfaces import MeasuresRows, MeasuresSets, ShiftsDistances, implements
from slideseek.searching.located_bags import LocatedBag, stored_bag
from slideseek.searching.patch_squares import PatchSquares
from slideseek.searching.queries import Query
from slideseek.searching.searcher import Searcher
from slideseek.types import Bag, Code, CodeSpec, Float32, Float64, UInt8

EvidenceKind: TypeAlias = Literal["pairs", "contributions", "removals"]

AGREEMENT = 1e-3
"""Largest relative difference allowed between the sum of the parts and the index's distance: rounding only."""

MOST_REMOVALS = 1000
"""Most patches to leave out one by one; each takes one more encoding of the slide."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A patch of the query and the most similar patch of the hit: their numbers, and the distance of their rows."""

    query: int
    hit: int
    distance: float


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What made a hit similar to the query.

    value: the distance shown; for `contributions` the similarity, which is the sum of the parts. query, hit: the
    squares of the patches. pairs: one per query patch, nearest first; none for the other kinds. parts: float64
    (n_query,), the contribution of each patch of the query; for pairs, minus the distance of its pair; for removals,
    how much the distance grows without it: higher always means more similar. hit_parts: float64 (n_hit,), the same for
    the patches of the hit. measure: the name of the distance. shift: part of the value that depends on the hit alone.
    """

    kind: EvidenceKind
    value: float
    query: PatchSquares
    hit: PatchSquares
    pairs: tuple[Pair, ...]
    parts: Float64
    hit_parts: Float64
    measure: str = ""
    shift: float = 0.0

    def share(self, part: float) -> str:
        """Format a part as a share of the similarity; "" where a share misleads: of no sum, or not within the whole."""
        return f"{part / self.value:.1%}" if self.kind == "contributions" and 0 <= part <= self.value > 0 else ""


def strongest(parts: Float64, count: int) -> list[int]:
    """Return the numbers of the patches with the largest parts, largest first."""
    return [int(number) for number in np.argsort(-parts, kind="stable")[:count]]


class Explainer:
    """Explain hits of one searcher; models are loaded when they are first needed."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def explain(self, query: Query, hit_id: str, options: Sequence[str] = ()) -> Evidence:
        """Return what makes a slide of the index similar to a query. options: those the search was given.

        Raises `SlideseekError` if the index does not say how it compares codes, if they are not comparable, and if
        stored features are missing.
        """
        searcher, engine = self._searcher, self._searcher.engine
        shown, tuned = self._distance(query, hit_id, options), searcher.tuned(options)
        (row, code), shift = self._stored(hit_id), 0.0
        hit, mine = stored_bag(searcher.archive, engine, searcher.stages, row), query.located()
        if tuned.reranker is not None:
            measure = _Measure.of(tuned.reranker, engine.owner("reranker"))
            made = measure.pairs(mine.bag.features, mine, hit.bag.features, hit)
        else:
            index = (tuned.index or searcher.index).inner
            measure = _Measure.of(index, engine.owner("index"))
            if implements(index, ShiftsDistances):
                shift = measure.shift(index, hit_id)
            if engine.spec.many:
                made = measure.pairs(query.code.rows, mine, code.rows, hit)
            else:
                made = _of_single_rows(searcher.queries.prepared(), measure, query.code, mine, code, hit)
        measure.check(made, shown - shift, engine.spec)
        return made if made.kind == "contributions" else replace(made, value=made.value + shift, shift=shift)

    def _distance(self, query: Query, hit_id: str, options: Sequence[str]) -> float:
        """Return the distance of one slide, as a search shows it."""
        ids = self._searcher.index.ids
        if hit_id not in ids:
            raise UsageError(
                f"slide {hit_id!r} is not in the index of engine {self._searcher.engine.name!r}",
                did_you_mean(hit_id, ids, "'slideseek status' lists the slides"),
            )
        distance = self._searcher.distance(query, hit_id, options)
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


@dataclass(frozen=True, slots=True)
class _Measure:
    """The distance of an index or a reranker."""

    inner: MeasuresRows
    owner: Owner

    @classmethod
    def of(cls, component: Any, owner: Owner) -> _Measure:
        if not implements(component, MeasuresRows):
            raise SlideseekError(
                f"{owner} does not say how it measures a distance, so its hits cannot be explained",
                "use an engine whose index does (interface MeasuresRows in the plugin reference)",
            )
        return cls(component, owner)

    @property
    def name(self) -> str:
        """What a distance is, for people."""
        return str(self.owner.read(self.inner, "distance_name"))

    def shift(self, index: ShiftsDistances, slide_id: str) -> float:
        """Return what the index adds to the distance of a slide."""
        found: Any = self.owner.call("shift()", index.shift, slide_id)
        if not isinstance(found, float) or not np.isfinite(found):
            raise self.owner.wrong(f"returned {found!r} from shift(), not a finite number")
        return found

    def between(self, query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
        """Return the distances of rows, float64 (n, m)."""
        found = self.owner.call("row_distances()", self.inner.row_distances, query, target)
        shape = (len(query), len(target))
        if np.shape(found) != shape or not np.isfinite(found).all():
            raise self.owner.wrong(f"did not return {shape[0]} x {shape[1]} finite distances from row_distances()")
        return np.asarray(found, np.float64)

    def pairs(self, query: UInt8 | Float32, mine: LocatedBag, target: UInt8 | Float32, hit: LocatedBag) -> Evidence:
        """Explain two sets by the nearest patch of each patch."""
        for rows, bag in ((query, mine), (target, hit)):
            if len(rows) != len(bag.squares):
                raise SlideseekError(
                    f"slide {bag.bag.slide_id!r} has {len(bag.squares)} patches and {len(rows)} rows in its code,"
                    " so rows do not correspond to patches",
                    "use an engine whose encoder keeps one row per patch",
                )
        if not implements(self.inner, MeasuresSets):
            raise SlideseekError(
                f"{self.owner} does not report how it compares two sets of patches",
                "use an engine whose index does (interface MeasuresSets in the plugin reference)",
            )
        between = self.between(query, target)
        partner, forth, back = between.argmin(axis=1), between.min(axis=1), between.min(axis=0)
        order = np.argsort(forth, kind="stable")
        pairs = tuple(Pair(int(i), int(partner[i]), float(forth[i])) for i in order)
        value = float(self.owner.call("set_distance()", self.inner.set_distance, between))
        return Evidence("pairs", value, mine.squares, hit.squares, pairs, -forth, -back, self.name)

    def check(self, made: Evidence, shown: float, spec: CodeSpec) -> None:
        """Raise an error if the evidence does not match the distance the search shows."""
        unit = spec.width if spec.kind == "bits" and made.kind != "pairs" else max(1.0, abs(shown))
        got = made.value if made.kind != "contributions" else (1.0 - made.value) * (unit if spec.kind == "bits" else 1)
        if abs(got - shown) > AGREEMENT * unit:
            raise self.owner.wrong(f"measures a distance of {got:.6g} between rows and shows {shown:.6g}")


def _of_single_rows(
    engine: Engine, measure: _Measure, query: Code, mine: LocatedBag, code: Code, hit: LocatedBag
) -> Evidence:
    """Explain two codes of one row: split their similarity over patches, or leave out one patch at a time."""
    distance, name = float(measure.between(query.rows, code.rows)[0, 0]), measure.name
    similarity = _similarity(query, code, engine.spec)
    unit = engine.spec.width if engine.spec.kind == "bits" else 1.0
    if abs((1.0 - similarity) * unit - distance) <= AGREEMENT * unit:
        parts = engine.contributions(mine.bag, code) if len(mine.bag) else np.zeros(0)  # text of an encoder
        back = engine.contributions(hit.bag, query)
        if parts is not None and back is not None:
            totals = [float(one.sum()) for one in (parts, back) if len(one)]
            for total in totals:
                if abs(total - similarity) > AGREEMENT:
                    raise engine.owner("encoder").wrong(
                        f"returned contributions that add up to {total:.6g}, and the similarity is {similarity:.6g}"
                    )
            return Evidence("contributions", totals[0], mine.squares, hit.squares, (), parts, back, name)
    forth = np.array([float(measure.between(one.rows, code.rows)[0, 0]) for one in _without_each(engine, mine.bag)])
    back = np.array([float(measure.between(query.rows, one.rows)[0, 0]) for one in _without_each(engine, hit.bag)])
    return Evidence("removals", distance, mine.squares, hit.squares, (), forth - distance, back - distance, name)


def _without_each(engine: Engine, bag: Bag) -> list[Code]:
    """Return the codes of a bag without each of its patches; of a single patch, which cannot go, its own code."""
    if len(bag) > MOST_REMOVALS:
        raise SlideseekError(
            f"slide {bag.slide_id!r} has {len(bag)} patches, too many to leave out one by one (at most"
            f" {MOST_REMOVALS}), and encoder {engine.config.encoder.use!r} cannot attribute a similarity to patches",
            "use an engine whose encoder can (interface Attributable in the plugin reference)",
        )
    if len(bag) == 1:
        return [engine.encode(bag)]
    bags = []
    for patch in range(len(bag)):
        kept = np.arange(len(bag)) != patch
        sides = None if bag.sides is None else bag.sides[kept]
        bags.append(replace(bag, features=bag.features[kept], xy=bag.xy[kept], sides=sides))
    return engine.encode_many(bags)


def _similarity(one: Code, other: Code, spec: CodeSpec) -> float:
    """Return the similarity that encoders attribute to patches: the share of equal bits, or the cosine."""
    if spec.kind == "bits":
        differing = np.bitwise_count(np.bitwise_xor(one.rows, other.rows))
        return 1.0 - float(differing.sum(dtype=np.int64)) / spec.width
    left, right = one.rows[0].astype(np.float64), other.rows[0].astype(np.float64)
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / lengths if lengths > 0 else 0.0
