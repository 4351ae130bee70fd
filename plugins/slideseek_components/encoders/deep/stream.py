"""Batches of patches drawn from all training slides, in memory that does not grow with the number of slides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.types import Bag, Float32, Int64

PIECE = 1024
"""Rows read from a bag at a time; a memory-mapped bag is never read whole."""


@dataclass(frozen=True)
class Batch:
    """x: float32 (n, width), raw features. slide: int64 (n,), the number of the bag each patch came from."""

    x: Float32
    slide: Int64


class PatchStream:
    """Shuffle the patches of `bags` through a pool of bounded size.

    Every epoch visits every patch once. Pieces of at most `PIECE` consecutive patches enter the pool in a random
    order over all bags; a batch is drawn from the whole pool. When all patches fit in the pool this is a plain
    shuffle, and the bags are read only once. The order depends only on the seed, the epoch, the bags and their order.
    """

    def __init__(self, bags: Sequence[Bag], counts: Int64, width: int, batch: int, pool: int, seed: int) -> None:
        """counts: int64 (bags,), patches to visit in each bag; 0 skips it."""
        self._bags, self._width, self._batch, self._seed = bags, width, batch, seed
        self._pool = max(pool, batch)
        self._pieces = [
            (i, start, min(start + PIECE, int(n))) for i, n in enumerate(counts) for start in range(0, int(n), PIECE)
        ]
        self.patches = int(counts.sum())
        self._resident: Batch | None = None

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        return -(-self.patches // self._batch)

    def epoch(self, number: int) -> Iterator[Batch]:
        """Yield the batches of epoch `number`; the last may be smaller."""
        rng = np.random.default_rng([self._seed, number])
        if self.patches <= self._pool:
            if self._resident is None:
                self._resident = self._read_all()
            order = rng.permutation(self.patches)
            for start in range(0, self.patches, self._batch):
                rows = order[start : start + self._batch]
                yield Batch(self._resident.x[rows], self._resident.slide[rows])
        else:
            yield from self._pooled(rng)

    def _read(self, piece: tuple[int, int, int], x: Float32, slide: Int64, held: int) -> int:
        """Write a piece to the rows of `x` and `slide` after the `held` first ones; return how many there are then.

        The bag is released before the next one is read: two are never in memory at once.
        """
        bag, start, stop = piece
        until = held + stop - start
        x[held:until], slide[held:until] = self._bags[bag].features[start:stop], bag
        return until

    def _read_all(self) -> Batch:
        x, slide = np.empty((self.patches, self._width), dtype=np.float32), np.empty(self.patches, dtype=np.int64)
        held = 0
        for piece in self._pieces:
            held = self._read(piece, x, slide, held)
        return Batch(x, slide)

    def _pooled(self, rng: np.random.Generator) -> Iterator[Batch]:
        most = self._pool + PIECE
        x, slide, held = np.empty((most, self._width), dtype=np.float32), np.empty(most, dtype=np.int64), 0
        waiting = [self._pieces[i] for i in rng.permutation(len(self._pieces))[::-1]]
        while waiting or held:
            while waiting and held < self._pool:
                held = self._read(waiting.pop(), x, slide, held)
            drawn = rng.choice(held, min(self._batch, held), replace=False)
            yield Batch(x[drawn], slide[drawn])
            # Fill the gaps with the last rows, so the pool stays one block.
            held -= len(drawn)
            last = np.ones(len(drawn), dtype=bool)
            last[drawn[drawn >= held] - held] = False
            holes, movers = drawn[drawn < held], np.flatnonzero(last) + held
            x[holes], slide[holes] = x[movers], slide[movers]
