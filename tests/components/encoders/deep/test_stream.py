"""The stream of training patches: complete, seeded, mixed and bounded."""

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.types import Bag
from slideseek_components.encoders.deep.stream import PIECE, PatchStream


class Lazy:
    """Bags that exist only while they are looked at; feature 0 is the bag, feature 1 the patch."""

    def __init__(self, counts, width=2):
        self.counts, self.width, self.reads = counts, width, 0

    def __len__(self):
        return len(self.counts)

    def __getitem__(self, i):
        self.reads += 1
        features = np.zeros((self.counts[i], self.width), dtype=np.float32)
        features[:, 0], features[:, 1] = i, np.arange(self.counts[i])
        return Bag(f"s{i}", features, np.zeros((self.counts[i], 2), dtype=np.int32))


def stream(bags, batch=10, pool=50, seed=0):
    return PatchStream(bags, np.array(bags.counts), bags.width, batch, pool, seed)


def flat(batches):
    return [(int(a), int(b)) for batch in batches for a, b in batch.x]


@pytest.mark.parametrize("pool", [1, 7, 50, 10_000])
@pytest.mark.parametrize("counts", [[3, 0, 40, 17], [PIECE * 2 + 5, 1, 3]])
def test_every_patch_exactly_once_an_epoch_with_its_bag(pool, counts):
    bags = Lazy(counts)
    batches = list(stream(bags, pool=pool).epoch(0))
    wanted = [(i, t) for i, n in enumerate(counts) for t in range(n)]
    assert sorted(flat(batches)) == wanted
    assert all((batch.x[:, 0] == batch.slide).all() for batch in batches)
    assert len(batches) == stream(bags, pool=pool).steps


@pytest.mark.parametrize("pool", [50, 10_000])
def test_order_follows_seed_and_epoch(pool):
    bags = Lazy([30, 40, 50])
    orders = [flat(stream(bags, pool=pool, seed=s).epoch(e)) for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2] and orders[0] != orders[3]


def test_batches_mix_bags():
    bags = Lazy([40] * 50)
    kinds = [len(set(batch.slide.tolist())) for batch in stream(bags, batch=20, pool=400).epoch(0)]
    assert np.mean(kinds) > 5


def test_bags_that_fit_the_pool_are_read_once():
    bags = Lazy([30, 40])
    small = stream(bags, pool=100)
    for epoch in range(3):
        list(small.epoch(epoch))
    assert bags.reads == 2


def test_memory_does_not_grow_with_the_bags(tmp_path):
    width, peaks = 64, []
    for rows in (4_000, 64_000):
        path = tmp_path / f"{rows}.npy"
        np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(rows, width))[:] = 1

        class Mapped(Sequence[Bag]):
            def __len__(self) -> int:
                return 3

            def __getitem__(self, i: Any, path: Path = path, rows: int = rows) -> Any:
                xy = np.lib.stride_tricks.as_strided(np.zeros(2, dtype=np.int32), (rows, 2), (0, 4))
                return Bag(f"s{i}", np.load(path, mmap_mode="r"), xy)

        tries = []
        for _ in range(3):  # threads of other tests may allocate meanwhile, which only adds: the least is the stream's
            tracemalloc.start()
            batches = PatchStream(Mapped(), np.array([rows] * 3), width, 64, 2048, 0).epoch(0)
            seen = sum(len(batch.x) for batch in batches)
            tries.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert seen == 3 * rows
        peaks.append(min(tries))
    assert peaks[1] < 1.2 * peaks[0] + 100_000
