"""Hubs: slides that are found far more often than their share, and whether those are the slides with most patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.types import Float64


@dataclass(frozen=True, slots=True)
class Hubness:
    """How evenly searches find slides.

    largest: how many times its fair share the slide `hub` is found. never: slides found by no query. skew: of how often
    slides are found, relative to their fair shares (Radovanović et al., Journal of Machine Learning Research 11, 2010).
    size: Spearman's correlation of the same with the number of patches; None if all have equally many, or unknown many.
    """

    slides: int
    skew: float
    largest: float
    hub: str
    never: int
    size: float | None


def hubness(found: Mapping[str, float], fair: Mapping[str, float], patches: Mapping[str, int]) -> Hubness | None:
    """Measure hubs. found: by slide id, how often it was found. fair: how often it would be if queries found slides at
    random; slides without a share are left out. patches: of each slide. None if there are not two slides."""
    ids = sorted(name for name, share in fair.items() if share > 0)
    if len(ids) < 2:
        return None
    often = np.array([found.get(name, 0.0) / fair[name] for name in ids])
    skew = float(((often - often.mean()) ** 3).mean() / often.std() ** 3) if often.std() > 0 else 0.0
    place = int(often.argmax())
    size = _spearman(often, [patches[name] for name in ids]) if patches.keys() >= set(ids) else None
    return Hubness(len(ids), skew, float(often[place]), ids[place], int((often == 0).sum()), size)


def _spearman(values: Float64, others: Sequence[int]) -> float | None:
    ranks = [
        np.cumsum(n)[of] - (n[of] - 1) / 2 for _, of, n in (np.unique(x, False, True, True) for x in (values, others))
    ]
    constant = any(rank.std() == 0 for rank in ranks)
    return None if constant else float(np.corrcoef(ranks[0], ranks[1])[0, 1])
