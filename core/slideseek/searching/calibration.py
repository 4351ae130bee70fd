"""What an agreement among hits is worth: slides of the archive whose truth is known, asked in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.searching.queries import Query
from slideseek.searching.searcher import Answer, Searcher

SAMPLE = 200
"""Slides asked at most: the share of right votes is then known to about 7 % at worst."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How often votes were right, by the share of hits that agreed: share to (right, asked)."""

    shares: Mapping[float, tuple[int, int]]

    def at(self, share: float) -> tuple[int, int]:
        """Return how many votes of exactly that agreement were right, and how many there were."""
        return self.shares.get(round(share, 6), (0, 0))


def calibrate(searcher: Searcher, search: Callable[[Query], Answer], sample: int = SAMPLE) -> dict[str, Calibration]:
    """Ask with up to `sample` slides of the index, evenly spread over it, and count right votes for site and label.

    search: the search to judge, with its k, mode and filters; it must leave out the query's own patient, else it would
    find it. A trainable encoder was fitted on these slides too, so its votes are right more often here than elsewhere.
    """
    ids = sorted(searcher.index.ids)
    places = np.unique(np.linspace(0, len(ids) - 1, min(sample, len(ids))).round().astype(int))
    counts: dict[str, dict[float, tuple[int, int]]] = {"site": {}, "label": {}}
    for place in places.tolist():
        query = searcher.ask.stored(ids[place])
        try:
            answer = search(query)
        except SlideseekError:  # a slide without the site or centre that this search needs cannot be asked
            continue
        for name, table in counts.items():
            truth = getattr(query.record, name)
            if truth and name in answer.votes:
                share = round(answer.confidence(name).share, 6)
                right, asked = table.get(share, (0, 0))
                table[share] = right + (answer.votes[name][0] == truth), asked + 1
    return {name: Calibration(table) for name, table in counts.items()}
