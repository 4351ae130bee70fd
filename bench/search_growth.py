"""Measure how the time of a query grows with the archive: `python -m bench.search_growth [--quick] [--out FILE]`.

Prints CPU milliseconds a query and bytes a slide for every engine and size, and plots them. Codes are synthetic, around
shared centres. Each engine stops at the size its memory or its build time allows here, which the plot shows.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import matplotlib as mpl
import numpy as np

from bench.search_speed import K, best_cpu_seconds, clustered_bits
from slideseek.types import Code
from slideseek_components.indexes import hamming
from slideseek_components.indexes.annoy_forest import Annoy
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.faiss_binary import FaissBinary
from slideseek_components.indexes.hamming import Hamming
from slideseek_components.indexes.recall import LowRecallWarning
from slideseek_components.indexes.sparse import Sparse

mpl.use("Agg")

from matplotlib import pyplot as plt  # after the choice of a backend without a screen

SIZES = (1_000, 10_000, 100_000, 1_000_000)
CHUNK = 50_000
BITS, FLOATS, SPARSE, NON_ZEROS, SET_ROWS = 1_024, 128, 10_000, 50, 32


@dataclass(frozen=True)
class Engine:
    """An index with codes made for it. largest: slides it is measured with at most."""

    name: str
    make: Callable[[], Any]
    rows: Callable[[int, int], list[Any]]
    largest: int


def bit_rows(count: int, seed: int) -> list[Any]:
    """Return single codes of bits, uint8 (1, columns) each."""
    return [*clustered_bits(count, BITS, seed)[:, None]]


def set_rows(count: int, seed: int) -> list[Any]:
    """Return sets of codes of bits."""
    return [*clustered_bits(count * SET_ROWS, BITS, seed).reshape(count, SET_ROWS, -1)]


def float_rows(count: int, seed: int) -> list[Any]:
    """Return single float codes."""
    rng, centres = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(200, FLOATS))
    values = centres[rng.integers(0, 200, count)] + rng.normal(size=(count, FLOATS))
    return [*values.astype(np.float32)[:, None]]


def sparse_rows(count: int, seed: int) -> list[Any]:
    """Return single sparse codes, dense in transit; made one at a time, so a list of them must stay short."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        row = np.zeros((1, SPARSE), np.float32)
        row[0, rng.integers(0, SPARSE, NON_ZEROS)] = rng.normal(size=NON_ZEROS)
        made.append(row)
    return made


ENGINES = (
    Engine("hamming, 1,024 bits", Hamming, bit_rows, 1_000_000),
    Engine("hamming, sets of 32 x 1,024 bits", Hamming, set_rows, 100_000),
    Engine("faiss-binary, 1,024 bits", lambda: FaissBinary(exact_below=5_000), bit_rows, 1_000_000),
    Engine("annoy, 1,024 bits", Annoy, bit_rows, 10_000),
    Engine("cosine, 128 floats", Cosine, float_rows, 1_000_000),
    Engine("sparse, 50 of 10,000", Sparse, sparse_rows, 100_000),
)


def filled(engine: Engine, count: int) -> Any:
    """Return an index of `count` synthetic slides, made and added in chunks to bound the memory."""
    index = engine.make()
    step = 2_000 if engine.rows is sparse_rows else CHUNK // (SET_ROWS if engine.rows is set_rows else 1)
    for first in range(0, count, step):
        rows = engine.rows(min(step, count - first), first + 1)
        index.add([Code(f"s{first + at:07d}", row) for at, row in enumerate(rows)])
    return index


def measured(engine: Engine, count: int, budget: float) -> tuple[float, float]:
    """Return CPU seconds a query and bytes a slide."""
    index = filled(engine, count)
    queries = [Code("q", row) for row in engine.rows(5, 0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowRecallWarning)
        seconds = best_cpu_seconds({"search": lambda: [index.search(query, K) for query in queries]}, budget)
    return seconds["search"] / len(queries), index.nbytes / count


def plot(results: dict[str, dict[int, tuple[float, float]]], path: Path) -> None:
    """Draw query time against slides, one line an engine, with its bytes a slide in the legend."""
    figure, axes = plt.subplots(figsize=(8, 5.5), layout="constrained")
    for name, points in results.items():
        sizes = sorted(points)
        label = f"{name}: {points[sizes[-1]][1]:,.0f} bytes a slide"
        axes.loglog(sizes, [points[size][0] * 1e3 for size in sizes], marker="o", label=label)
    axes.set(xlabel="slides", ylabel=f"CPU time of a query, ms (k = {K})")
    axes.grid(visible=True, which="major", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
    figure.savefig(path, dpi=75)


def main() -> None:
    """Run, print and plot everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="up to 10,000 slides")
    parser.add_argument("--out", type=Path, default=Path("search_growth.svg"), help="plot, .svg or .png")
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)
    hamming.COMPILED_AFTER = 0
    results: dict[str, dict[int, tuple[float, float]]] = {}
    for engine in ENGINES:
        for size in SIZES:
            if size > engine.largest or (given.quick and size > 10_000):
                continue
            seconds, nbytes = measured(engine, size, 0.2 if given.quick else 1.0)
            results.setdefault(engine.name, {})[size] = seconds, nbytes
            print(
                f"{engine.name:34} {size:>9,} slides  {seconds * 1e3:9.3f} ms  {nbytes:8,.0f} bytes a slide", flush=True
            )
    plot(results, given.out)
    print(f"plot: {given.out}")


if __name__ == "__main__":
    main()
