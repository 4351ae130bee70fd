"""Compare the exact Hamming search with other ways to the same answer: `python -m bench.search_speed [--quick]`.

Times are CPU time a query on one thread, since a shared machine makes wall time meaningless: contenders take turns, and
the best turn of each counts. Every contender ends with the same list of hits (slide id and distance), and distances are
compared before anything is timed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import faiss
import numba
import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from slideseek.types import Code, Hit
from slideseek_components.indexes import hamming
from slideseek_components.indexes.annoy_forest import Annoy
from slideseek_components.indexes.hamming import Hamming
from slideseek_components.indexes.recall import LowRecallWarning

K, BATCH = 10, 64
TURN = 4e-3
"""CPU seconds of a turn, at least."""
SKLEARN_VALUES, ANNOY_VALUES = 20_000_000, 60_000_000
"""Largest archives, in bits, that scikit-learn (else a part, scaled up) and annoy (else left out) are given."""


def clustered_bits(count: int, bits: int, seed: int, centres: int = 200) -> NDArray[np.uint8]:
    """Return packed codes around shared centres, a quarter of the bits flipped: uint8 (count, ceil(bits / 8))."""
    rng, columns = np.random.default_rng(seed), (bits + 7) // 8
    middle = np.random.default_rng(0).integers(0, 256, (centres, columns), np.uint8)
    rows = middle[rng.integers(0, centres, count)]
    for first in range(0, count, 10_000):
        part = rows[first : first + 10_000]
        part ^= rng.integers(0, 256, part.shape, np.uint8) & rng.integers(0, 256, part.shape, np.uint8)
    if bits % 8:
        rows[:, -1] &= 0xFF << (8 - bits % 8) & 0xFF
    return rows


def best_cpu_seconds(contenders: Mapping[str, Callable[[], object]], budget: float) -> dict[str, float]:
    """Return the CPU seconds a call in the best turn of each contender; each gets about `budget` seconds.

    A turn is as many calls in a row as take some milliseconds, so that no contender is measured on what another one
    left in the caches.
    """
    once = {}
    for name, run in contenders.items():
        run()
        once[name] = max(_cpu_seconds(run, 1), 1e-6)
    calls = {name: max(1, int(TURN / seconds)) for name, seconds in once.items()}
    turns = {name: max(3, min(200, int(budget / (calls[name] * seconds)))) for name, seconds in once.items()}
    best = dict(once)
    for turn in range(max(turns.values())):
        for name, run in contenders.items():
            if turn < turns[name]:
                best[name] = min(best[name], _cpu_seconds(run, calls[name]))
    return best


def _cpu_seconds(run: Callable[[], object], calls: int) -> float:
    """Return the CPU seconds of one of so many calls in a row."""
    began = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - began) / calls


def read_bandwidth() -> float:
    """Return the bytes a second one thread reads from memory."""
    block = np.ones(1 << 26, np.int64)
    return block.nbytes / best_cpu_seconds({"read": block.sum}, 1.0)["read"]


def named(found: tuple[NDArray[Any], NDArray[Any]], ids: Sequence[str]) -> list[list[Hit]]:
    """Turn the distances and places a library returns, (queries, k) each, into hits."""
    rows = zip(found[0].tolist(), found[1].tolist(), strict=True)
    return [[Hit(ids[place], float(far)) for far, place in zip(*row, strict=True)] for row in rows]


def single_codes(count: int, bits: int, bandwidth: float, budget: float) -> None:
    """Print the table of one archive of single codes."""
    rows, asked = clustered_bits(count, bits, 1), clustered_bits(BATCH, bits, 2)
    index = Hamming()
    index.add([Code(f"s{number:07d}", row[None]) for number, row in enumerate(rows)])
    ids, queries = index.ids, [Code("q", row[None]) for row in asked]
    words, asked_words = hamming.words(rows), hamming.words(asked)
    flat = faiss.IndexBinaryFlat(words.shape[1] * 64)
    flat.add(words.view(np.uint8))
    packed = asked_words.view(np.uint8)

    def by_numpy() -> list[list[Hit]]:
        far = np.bitwise_count(words ^ asked_words[0]).sum(axis=1, dtype=np.int32)
        near = np.argpartition(far, K)[:K]
        near = near[np.argsort(far[near], kind="stable")]
        return named((far[None, near], near[None]), ids)

    part = min(count, max(K, SKLEARN_VALUES // bits))
    brute = NearestNeighbors(n_neighbors=K, algorithm="brute", metric="hamming", n_jobs=1)
    brute.fit(np.unpackbits(rows[:part], axis=1, count=bits).astype(np.bool_))
    asked_bools = np.unpackbits(asked, axis=1, count=bits).astype(np.bool_)
    contenders: dict[str, Callable[[], Any]] = {
        "ours": lambda: index.search(queries[0], K),
        "faiss flat": lambda: named(flat.search(packed[:1], K), ids),
        "numpy": by_numpy,
        "scikit-learn": lambda: named(brute.kneighbors(asked_bools[:1]), ids),
        "ours, batch": lambda: index.search_many(queries, K),
        "faiss flat, batch": lambda: named(flat.search(packed, K), ids),
    }
    recall = 1.0
    if count * bits <= ANNOY_VALUES:
        forest = Annoy(exact_below=0)
        forest.add([Code(slide_id, row[None]) for slide_id, row in zip(ids, rows, strict=True)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LowRecallWarning)  # the recall is printed
            forest.build()
        recall = forest.recalls[""]
        contenders["annoy"] = lambda: forest.search(queries[0], K)
    expected = [[hit.distance for hit in hits] for hits in index.search_many(queries, K)]
    assert [[hit.distance for hit in hits] for hits in contenders["faiss flat, batch"]()] == expected
    assert [hit.distance for hit in by_numpy()[0]] == expected[0]

    seconds = best_cpu_seconds(contenders, budget)
    seconds["scikit-learn"] *= count / part
    print(f"\n{count:,} codes of {bits:,} bits, {index.nbytes / 1e6:.0f} MB")
    for name, took in seconds.items():
        batched = name.endswith("batch")
        took /= BATCH if batched else 1
        ours = seconds["ours, batch"] / BATCH if batched else seconds["ours"]
        rate = index.nbytes / took
        notes = (
            f"recall {recall:.2f}"
            if name == "annoy"
            else f"{rate / 1e9:6.1f} GB/s = {rate / bandwidth:4.0%} of reading"
        )
        if name == "scikit-learn" and part < count:
            notes += f", scaled from {part:,} codes"
        print(f"  {name:18} {took * 1e3:10.3f} ms   {took / ours:7.2f} x ours   {notes}")


def bags_like_yottixel(count: int, seed: int) -> list[Code]:
    """Return sets of barcodes of 1,023 bits with the sizes of real mosaics: median 32, 90 % up to 66, most 213."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(np.exp(rng.normal(np.log(32), 0.57, count)), 1, 213).astype(int)
    rows = clustered_bits(int(sizes.sum()), 1023, seed)
    return [Code(f"s{n:05d}", part) for n, part in enumerate(np.split(rows, np.cumsum(sizes)[:-1]))]


def set_codes(count: int, budget: float) -> None:
    """Print the table of a Yottixel search."""
    held = bags_like_yottixel(count, 1)
    query = Code("q", clustered_bits(32, 1023, 2))
    index = Hamming()
    index.add(held)
    wide = [hamming.words(code.rows) for code in held]

    def pair_loop(rows: NDArray[Any], others: Sequence[NDArray[Any]]) -> list[Hit]:
        far = [np.median(np.bitwise_count(rows[:, None] ^ other).sum(axis=2).min(axis=1)) for other in others]
        ranked = sorted(zip(map(float, far), index.ids, strict=True))[:K]
        return [Hit(slide_id, distance) for distance, slide_id in ranked]

    contenders: dict[str, Callable[[], list[Hit]]] = {
        "ours": lambda: index.search(query, K),
        "loop over pairs, 64-bit words": lambda: pair_loop(hamming.words(query.rows), wide),
        "loop over pairs, bytes": lambda: pair_loop(query.rows, [code.rows for code in held]),
    }
    assert len({tuple(run()) for run in contenders.values()}) == 1
    seconds = best_cpu_seconds(contenders, budget)
    sizes = np.array([len(code) for code in held])
    shape = f"median {np.median(sizes):.0f}, 90 % up to {np.percentile(sizes, 90):.0f}, most {sizes.max()}"
    print(f"\nYottixel: {count:,} sets of barcodes ({shape}), query of {len(query)}; same hits")
    for name, took in seconds.items():
        print(f"  {name:32} {took * 1e3:10.2f} ms   {took / seconds['ours']:7.1f} x ours")


def main() -> None:
    """Run and print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="3,761 codes only, shorter turns")
    quick = parser.parse_args().quick
    faiss.omp_set_num_threads(1)
    numba.config.NUMBA_NUM_THREADS = 1
    hamming.COMPILED_AFTER = 0
    budget = 0.3 if quick else 2.0
    bandwidth = read_bandwidth()
    print(f"CPU time a query, one thread, k = {K}, batches of {BATCH}; reading memory: {bandwidth / 1e9:.1f} GB/s")
    for count in (3_761,) if quick else (3_761, 100_000):
        for bits in (500, 5_000, 40_000):
            single_codes(count, bits, bandwidth, budget)
    set_codes(3_761, budget)


if __name__ == "__main__":
    main()
