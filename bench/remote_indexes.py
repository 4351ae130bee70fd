"""Compare indexes on servers with the local one: `python -m bench.remote_indexes [--slides 10000 100000]`.

PostgreSQL (one shard and two, exact and HNSW), Lance and Milvus are started on loopback, beside `hamming` in the same
run. Times are wall time, since the work is done by other processes; queries of all engines take turns, and the medians
are compared. Hits of exact engines must equal those of `hamming` before anything is timed. What a query in PostgreSQL
spends its time on is shown by `python -m bench.postgres_profile`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.search_speed import clustered_bits
from bench.servers import Milvus as MilvusServer
from bench.servers import Postgres
from slideseek.types import Code
from slideseek_components.indexes.hamming import COMPILED_AFTER, Hamming
from slideseek_components.indexes.lance import Lance
from slideseek_components.indexes.milvus import Milvus
from slideseek_components.indexes.pgvector import PgVector

K, QUERIES, CLIENTS = 10, 20, 4
HNSW_MOST = 20_000
"""Slides up to which the HNSW graph is built, unless asked otherwise: beyond, it takes many minutes on one core."""

Make = Callable[[], Any]


@contextmanager
def engines(folder: Path, wanted: set[str]) -> Iterator[dict[str, Make]]:
    """Start servers and yield, by name, how to make an index on them."""
    with ExitStack() as stack:
        made: dict[str, Make] = {}
        if any(name.startswith("pgvector") for name in wanted):
            for number in (1, 2):
                server = Postgres(folder / f"postgres{number}", memory="2GB")
                stack.callback(server.close)
                os.environ[f"BENCH_PG_{number}"] = server.prepare()
            made["pgvector, 1 shard"] = lambda: PgVector(shards=("BENCH_PG_1",), seconds=600.0)
            made["pgvector, 2 shards"] = lambda: PgVector(shards=("BENCH_PG_1", "BENCH_PG_2"), seconds=600.0)
            made["pgvector, hnsw 100"] = lambda: PgVector(shards=("BENCH_PG_1",), seconds=600.0, hnsw=100)
        made["lance"] = lambda: Lance(uri=str(folder / "lance"))
        if any(name.startswith("milvus") for name in wanted):
            milvus = MilvusServer(folder / "milvus")
            pid = milvus.start()
            stack.callback(milvus.stop, pid)
            os.environ["SLIDESEEK_MILVUS"] = milvus.uri
            made["milvus"] = lambda: Milvus(seconds=120.0)
        yield {name: make for name, make in made.items() if any(name.startswith(one) for one in wanted)}


def say(text: str) -> None:
    """Print what is done now, beside the results."""
    print(text, file=sys.stderr, flush=True)


def measure(slides: int, bits: int, made: dict[str, Make], folder: Path, hnsw_most: int, count: int) -> None:
    """Load all engines with the same codes, and print one line for each."""
    rows = clustered_bits(slides, bits, seed=1)
    codes = [Code(f"s{number:07d}", rows[number : number + 1]) for number in range(slides)]
    queries = [Code("query", row[None]) for row in clustered_bits(count, bits, seed=2)]
    local = Hamming()
    started = time.perf_counter()
    local.add(codes)
    loaded, opened = {"hamming": time.perf_counter() - started}, {"hamming": 0.0}
    local.compared_ = COMPILED_AFTER
    expected = [local.search(query, K) for query in queries]
    indexes: dict[str, Any] = {"hamming": local}
    recall: dict[str, float] = {"hamming": 1.0}
    for number, (name, make) in enumerate(made.items()):
        if "hnsw" in name and slides > hnsw_most:
            say(f"{name}: not built for more than {hnsw_most} slides (--hnsw-most)")
            continue
        say(f"{name}: loading {slides} codes")
        index = make()
        index.add(codes)
        index.settle(f"slideseek_bench_{number}_{slides}")
        place = folder / f"saved{number}_{slides}"
        place.mkdir()
        started = time.perf_counter()
        index.save(place)
        loaded[name] = time.perf_counter() - started
        indexes[name] = make()
        started = time.perf_counter()
        indexes[name].load(place)
        opened[name] = time.perf_counter() - started
        found = [indexes[name].search(query, K) for query in queries]
        assert not index.exact or found == expected, f"{name} found other slides than hamming"
        same = [{hit.slide_id for hit in a} & {hit.slide_id for hit in b} for a, b in zip(found, expected)]
        recall[name] = sum(map(len, same)) / (K * count)
    if "milvus" in indexes:
        time.sleep(11)  # what was just saved is searched with strong consistency, which waits
    times: dict[str, list[float]] = {name: [] for name in indexes}
    for query in queries:
        for name, index in indexes.items():
            started = time.perf_counter()
            index.search(query, K)
            times[name].append(time.perf_counter() - started)
    base = median(times["hamming"])
    print(f"\n{slides} codes of {bits} bits, k = {K}")
    print(f"{'index':<20} {'load s':>8} {'open s':>8} {'ms':>8} {'x local':>8} {'queries/s':>10} {'recall':>7}")
    for name, index in indexes.items():
        wall = median(times[name])
        rate = throughput(index, queries)
        print(
            f"{name:<20} {loaded[name]:>8.2f} {opened[name]:>8.2f} {1000 * wall:>8.2f} {wall / base:>8.1f}"
            f" {rate:>10.1f} {recall[name]:>7.3f}",
            flush=True,
        )
    for name, index in indexes.items():
        if index is not local:
            index.settle(f"{index.place_.rpartition('_')[0]}_0")
            index.discard(folder / f"saved{list(made).index(name)}_{slides}")


def throughput(index: Any, queries: list[Code]) -> float:
    """Return the queries per second of several clients at once."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        started = time.perf_counter()
        list(pool.map(lambda query: index.search(query, K), queries))
        return len(queries) / (time.perf_counter() - started)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--slides", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--bits", type=int, default=5000)
    parser.add_argument("--engines", nargs="+", default=["pgvector", "lance", "milvus"])
    parser.add_argument("--hnsw-most", type=int, default=HNSW_MOST, help="slides up to which HNSW is measured")
    parser.add_argument("--queries", type=int, default=QUERIES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, engines(Path(name), set(given.engines)) as made:
        for slides in given.slides:
            measure(slides, given.bits, made, Path(name), given.hnsw_most, given.queries)


if __name__ == "__main__":
    main()
