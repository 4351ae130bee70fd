"""Hamming search in plain numpy: slower by the byte than the compiled kernels, with nothing to load or compile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Float64, Mask

from .sets import Direction, set_distances
from .store import SlideStore, blocks

BLOCK_BYTES = 1 << 19
"""Stored rows compared at a time: the intermediate results stay in the cache."""


def distances(store: SlideStore, query: NDArray[np.uint64], wanted: Mask | None, direction: Direction) -> Float64:
    """Return the set distance from the query, uint64 (rows, words), to every wanted slide, in slot order."""
    found = [np.empty(0, np.float64)]
    for fields, starts in blocks(store, wanted, BLOCK_BYTES):
        stored = fields["words"]
        between = np.empty((len(query), len(stored)), np.int32)
        for row, out in zip(query, between):
            np.einsum("ij->i", np.bitwise_count(stored ^ row), out=out, dtype=np.int32, casting="unsafe")
        found.append(set_distances(between, starts, direction))
    return np.concatenate(found)
