"""Why a slide was found: the patch pairs or the contributing patches that make the distance a search shows.

Codes that are sets (one row a patch) are explained by pairs: each patch and the nearest one on the other side. Codes
of one row are explained by contributions, where the encoder can split a similarity over patches (`Attributable`).
Either way the parts are checked against the distance the index gives, so that what is shown is what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from slideseek.archive.payloads import unpack_code
from slideseek.archive.slide_table import SlideRow
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import PluginError, SlideseekError, UsageError
from slideseek.interfaces import Attributable
from slideseek.searching.patch_squares import Fields as Fields
from slideseek.searching.queries import Query
from slideseek.searching.query_bags import Material, stored_material
from slideseek.searching.searcher import Searcher
from slideseek.types import Code, Float32, Float64, Mask, UInt8

EvidenceKind: TypeAlias = Literal["pairs", "contributions"]

AGREEMENT = 1e-3
"""Largest difference, as a share of 1, between what the parts make and what the index says: rounding, no more."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A patch of the query and the patch of the hit most like it: their numbers, and the distance of their rows.

    The distance is that of the index: bits that differ for codes of bits, 1 - cosine for floats.
    """

    query: int
    hit: int
    distance: float


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What made a hit similar to the query.

    value: for `pairs` the distance of the two sets, for `contributions` the similarity, to which the parts add up.
    query, hit: the squares of the patches. pairs: one a query patch, nearest first; none for contributions.
    parts: float64 (n_query,), what each patch of the query adds; for pairs, minus the distance of its pair, so that
    higher is always more alike. hit_parts: float64 (n_hit,), the same seen from the hit.
    """

    kind: EvidenceKind
    value: float
    query: Fields
    hit: Fields
    pairs: tuple[Pair, ...]
    parts: Float64
    hit_parts: Float64


class Explainer:
    """Explain hits of one searcher; models are loaded when they are first needed."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def explain(self, query: Query, hit_id: str) -> Evidence:
        """Return what makes a slide of the index similar to a query.

        A `SlideseekError` says so when the encoder can neither pair nor attribute, when the two codes are not
        comparable, and when stored features are gone.
        """
        shown = self._distance(query, hit_id)
        searcher, encoder = self._searcher, self._attributable()
        row, code = self._stored(hit_id)
        hit, mine = stored_material(searcher.archive, searcher.engine, searcher.ledger, row), query.material()
        if encoder is None:
            made = self._pairs(query.code, mine, code, hit)
        else:
            parts, hit_parts = encoder.contributions(mine.bag, code), encoder.contributions(hit.bag, query.code)
            made = Evidence("contributions", float(parts.sum()), mine.fields, hit.fields, (), parts, hit_parts)
        self._check(made, shown, hit_id)
        return made

    def _attributable(self) -> Attributable | None:
        """Return the encoder that splits similarities; None for sets, which need no encoder to be paired."""
        if self._searcher.engine.spec.many:
            return None
        engine = self._searcher.ask.prepared()
        if not isinstance(engine.encoder, Attributable):
            raise SlideseekError(
                f"encoder {engine.config.encoder.use!r} of engine {engine.name!r} cannot say which patches make two"
                " slides similar",
                "ask an engine whose encoder can: yottixel, mean, bovw, vlad, gmm-fv, the deep Fisher vectors",
            )
        return engine.encoder

    def _pairs(self, query: Code, mine: Material, code: Code, hit: Material) -> Evidence:
        for one, material in ((query, mine), (code, hit)):
            if len(one) != len(material.fields):
                raise SlideseekError(
                    f"slide {one.slide_id!r} has {len(material.fields)} patches and {len(one)} rows in its code,"
                    " so that no row stands for one patch",
                    "ask an engine whose encoder keeps a row a patch, such as yottixel",
                )
        between = row_distances(query.rows, code.rows)
        partner, forth, back = between.argmin(axis=1), between.min(axis=1), between.min(axis=0)
        order = np.argsort(forth, kind="stable")
        pairs = tuple(Pair(int(i), int(partner[i]), float(forth[i])) for i in order)
        medians = float(np.median(forth)), float(np.median(back))
        # The option of the index decides over which of the two sets the median runs.
        direction = self._searcher.engine.resolved.settings["index"].get("direction", "query")
        value = {"query": medians[0], "target": medians[1]}.get(direction, sum(medians) / 2)
        return Evidence("pairs", value, mine.fields, hit.fields, pairs, -forth, -back)

    def _distance(self, query: Query, hit_id: str) -> float:
        """Return the distance the index gives for one slide, as a search shows it."""
        index = self._searcher.index
        # Not kept from one call to the next: the index follows the archive.
        among: Mask = np.fromiter((held == hit_id for held in index.ids), np.bool_, count=len(index.ids))
        if not among.any():
            raise UsageError(
                f"slide {hit_id!r} is not in the index of engine {self._searcher.engine.name!r}",
                did_you_mean(hit_id, index.ids, "'slideseek status' lists the slides"),
            )
        hits = index.search(query.code, 1, among)
        if not hits:
            raise UsageError(
                f"the codes of {query.record.id!r} and {hit_id!r} cannot be compared: they are of different sites",
                "a conditioned encoder compares slides of one site only",
            )
        return hits[0].distance

    def _stored(self, slide_id: str) -> tuple[SlideRow, Code]:
        """Return what the catalogue knows of a slide of the index, and its code."""
        searcher = self._searcher
        row = searcher.archive.catalog.slides.get(slide_id)
        record = row and searcher.ledger.record(searcher.engine, "encode", row)
        payload = record and searcher.archive.catalog.payload(record.key)
        if not row or not payload:
            raise SlideseekError(
                f"slide {slide_id!r} has changed or gone since the index was opened",
                "run 'slideseek build', then search again",
            )
        return row, unpack_code(payload, slide_id)

    def _check(self, made: Evidence, shown: float, hit_id: str) -> None:
        """Refuse evidence that does not make the distance a person sees."""
        spec = self._searcher.engine.spec
        unit = spec.width if spec.kind == "bits" else 1.0
        got = made.value if made.kind == "pairs" else (1.0 - made.value) * unit
        if abs(got - shown) > AGREEMENT * unit:
            raise PluginError(
                f"the patches of the query and {hit_id!r} make a distance of {got:.6g}, the index says {shown:.6g}",
                "the archive may have changed since it was opened: search again; else index and encoder do not agree",
            )


def row_distances(query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
    """Return the distance of every query row to every target row: float64 (n, m).

    Packed bits: how many differ. Floats: 1 - cosine, where a zero row counts as at right angles to all.
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
