"""A bounded, seeded sample of the training patches, for methods that learn from patches in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slideseek.types import Bag, Float32, Float64, Int64
from slideseek_components.encoders.bags import canonical_order, finite_features


def sample_patches(
    bags: Sequence[Bag], limit: int, seed: int, part_of: Callable[[Bag], str] = lambda bag: ""
) -> dict[str, Float32]:
    """Return at most `limit` patches for each part of the bags, float32 (m, width), each equally likely.

    part_of: returns the part a bag belongs to. One pass over the bags, one bag at a time. Every patch draws a random
    key and the smallest keys of a part stay; the keys follow the canonical order of a bag's patches, so the sample
    does not depend on the order they are stored in. Empty bags are skipped.
    """
    samples: dict[str, _Sample] = {}
    width = None
    for i in range(len(bags)):
        bag = bags[i]
        if len(bag) == 0:
            continue
        features = finite_features(bag, width)
        width = bag.width
        own = samples.setdefault(part_of(bag), _Sample(limit, width))
        own.add(np.random.default_rng([seed, i]).random(len(features)), features)
    return {part: own.in_order() for part, own in sorted(samples.items())}


class _Sample:
    """The rows with the smallest keys so far. A new row takes the place of a dropped one, so the cost of a bag does not
    depend on the size of the sample."""

    def __init__(self, limit: int, width: int) -> None:
        self._limit, self._held, self._seen = limit, 0, 0
        self._keys: Float64 = np.empty(0)
        self._arrival: Int64 = np.empty(0, dtype=np.int64)
        self._rows: Float32 = np.empty((0, width), dtype=np.float32)

    def add(self, keys: Float64, features: Float32) -> None:
        """Add the patches of a bag, (n, width); keys: float64 (n,), one for each in the canonical order."""
        best = np.argsort(keys, kind="stable")[: self._limit]
        if self._held == self._limit:
            best = best[keys[best] < self._keys.max()]
        if not len(best):
            return
        both = np.concatenate([self._keys[: self._held], keys[best]])
        over = max(0, len(both) - self._limit)
        gone = np.argpartition(both, len(both) - over)[len(both) - over :] if over else np.empty(0, dtype=np.int64)
        stay = np.ones(len(best), dtype=np.bool_)
        stay[gone[gone >= self._held] - self._held] = False
        best = best[stay]
        free = np.concatenate([gone[gone < self._held], np.arange(self._held, len(both) - over)])
        self._grow(len(both) - over)
        self._keys[free], self._rows[free] = keys[best], features[canonical_order(features)[best]]
        self._arrival[free] = self._seen + np.flatnonzero(stay)
        self._held, self._seen = len(both) - over, self._seen + len(stay)

    def in_order(self) -> Float32:
        """Return the rows in the order of the bags, and of the keys within a bag."""
        return self._rows[np.argsort(self._arrival[: self._held])]

    def _grow(self, least: int) -> None:
        """Make room for `least` rows, at least twice the room there was."""
        if least > len(self._keys):
            more = min(self._limit, max(least, 2 * len(self._keys))) - len(self._keys)
            self._keys = np.concatenate([self._keys, np.empty(more)])
            self._arrival = np.concatenate([self._arrival, np.empty(more, dtype=np.int64)])
            self._rows = np.concatenate([self._rows, np.empty((more, self._rows.shape[1]), dtype=np.float32)])
