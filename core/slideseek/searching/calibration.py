"""How reliable an agreement among hits is, measured with slides of the archive whose site and label are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from slideseek.searching.queries import Query
from slideseek.searching.request import Request
from slideseek.searching.searcher import Searcher
from slideseek.searching.votes import VOTED

SAMPLE = 200
"""Most slides to query with: enough to know the share of right votes to about 7 % at worst."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How often votes were right, by the share of hits that agreed: maps share to (right, searched)."""

    shares: Mapping[float, tuple[int, int]]

    def at(self, share: float) -> tuple[int, int]:
        """Return how many votes with exactly that agreement were right, and how many there were."""
        return self.shares.get(round(share, 6), (0, 0))


def calibrate(searcher: Searcher, request: Request, sample: int = SAMPLE) -> dict[str, Calibration]:
    """Query with up to `sample` slides of the index, evenly spread, and count the right votes for site and label.

    request: the search to judge, with its k, mode and filters. Every slide's own patient is excluded; otherwise it
    would find itself. A trainable encoder was fitted on these slides, so its votes are right more often here than on
    new slides.
    """
    ids = sorted(searcher.index.ids)
    places = np.unique(np.linspace(0, len(ids) - 1, min(sample, len(ids))).round().astype(int))
    queries = [replace(searcher.queries.stored(ids[at]), any_stain=request.any_stain) for at in places.tolist()]
    usable = [query for query in queries if _is_usable(query, request)]
    how = request.k, request.mode, request.where, request.exclude_center, request.options
    counts: dict[str, dict[float, tuple[int, int]]] = {name: {} for name in VOTED}
    for query, answer in zip(usable, searcher.search_many(usable, *how)):
        for name, table in counts.items():
            truth = getattr(query.record, name)
            if truth and (vote := answer.votes.get(name)) is not None:
                share = round(vote.confidence, 6)
                right, searched = table.get(share, (0, 0))
                table[share] = right + (vote.value == truth), searched + 1
    return {name: Calibration(table) for name, table in counts.items()}


def _is_usable(query: Query, request: Request) -> bool:
    """Return whether a slide has the site and the centre that the search needs."""
    return bool(
        (request.mode == "horizontal" or query.record.site) and (not request.exclude_center or query.record.center)
    )
