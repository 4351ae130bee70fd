"""A bounded, seeded sample of the training patches, for methods that learn from patches in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slideseek.types import Bag, Float32, Float64
from slideseek_components.encoders.bags import canonical_order, finite_features


def sample_patches(
    bags: Sequence[Bag], limit: int, seed: int, part_of: Callable[[Bag], str] = lambda bag: ""
) -> dict[str, Float32]:
    """Return at most `limit` patches for each part of the bags, float32 (m, width), each equally likely.

    part_of: returns the part a bag belongs to. One pass over the bags, one bag at a time. Every patch draws a random
    key and the smallest keys of a part stay; the keys follow the canonical order of a bag's patches, so the sample
    does not depend on the order they are stored in. Empty bags are skipped.
    """
    kept: dict[str, tuple[Float64, Float32]] = {}
    width = None
    for i in range(len(bags)):
        bag = bags[i]
        if len(bag) == 0:
            continue
        part, features = part_of(bag), finite_features(bag, width)
        width = bag.width
        keys = np.random.default_rng([seed, i]).random(len(features))
        best = np.argsort(keys, kind="stable")[:limit]
        keys, rows = keys[best], features[canonical_order(features)[best]]
        if part in kept:
            keys, rows = np.concatenate([kept[part][0], keys]), np.concatenate([kept[part][1], rows])
        best = np.sort(np.argsort(keys, kind="stable")[:limit])
        kept[part] = keys[best], rows[best]
    return {part: rows for part, (_, rows) in sorted(kept.items())}
