"""Size an installation: `python -m bench.sizing [--bits 5000] [--slide-seconds S] [--nodes N] [--rate Q]`.

Measures how fast one thread searches codes in memory here, and simulates queries that arrive at random: each goes to
every shard, a shard serves two queries at a time, and the slowest shard decides. Prints, for 1 and 100 million
slides, bytes, shards and replicas, and the latency of a query at the given rate. Ingest is arithmetic: seconds per
slide of one core, times slides, over cores.
"""

from __future__ import annotations

import argparse
import heapq

import numpy as np

from bench.search_speed import K, best_cpu_seconds, clustered_bits
from slideseek.types import Code
from slideseek_components.indexes.hamming import Hamming

MEASURED = 400_000
"""Codes of the index that is measured: more than fit the caches of a processor."""

NETWORK_MS, QUERIES, CORES, AT_ONCE = 1.0, 20_000, 8, 2
"""Time to a shard and back, simulated queries, cores of one machine, and queries that it searches at full speed at
once: more of them share its memory, which is what limits a search."""

FEATURE_BYTES = 50 * 1280 * 4
"""Of the features of a slide with the default engine: 50 patches, 1,280 numbers of 4 bytes."""


def milliseconds_per_code(bits: int) -> float:
    """Return the time one thread needs per code, measured."""
    rows = clustered_bits(MEASURED, bits, 0)
    index = Hamming()
    index.add([Code(f"s{n}", rows[n : n + 1]) for n in range(MEASURED)])
    query = Code("q", clustered_bits(1, bits, 1))
    return 1000 * best_cpu_seconds({"one": lambda: index.search(query, K)}, 3.0)["one"] / MEASURED


def latencies(service_ms: float, shards: int, replicas: int, rate: float, seed: int = 0) -> np.ndarray:
    """Simulate queries; return their latencies in ms, sorted.

    service_ms: of one query in one shard on one core. replicas: of every shard; a query takes the first free core of
    any. rate: queries per second. Service times vary by a tenth.
    """
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1000 / rate, QUERIES))
    done = np.zeros(QUERIES)
    for _ in range(shards):
        free = [0.0] * (AT_ONCE * replicas)
        service = service_ms * rng.normal(1, 0.1, QUERIES).clip(0.5, 2)
        for number, (arrived, takes) in enumerate(zip(arrivals.tolist(), service.tolist())):
            begun = max(arrived, heapq.heappop(free))
            heapq.heappush(free, begun + takes)
            done[number] = max(done[number], begun + takes)
    return np.sort(done - arrivals + NETWORK_MS)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=20.0, help="queries per second")
    parser.add_argument("--slide-seconds", type=float, default=20.0, help="CPU seconds to take in a slide on one core")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 10, 100])
    given = parser.parse_args()
    per_code = milliseconds_per_code(given.bits)
    print(f"one thread: {1e6 * per_code:.0f} ns per code of {given.bits} bits, measured with {MEASURED:,} codes")
    print(
        f"\nsearch at {given.rate:g} queries per second, {AT_ONCE} at once per machine, {NETWORK_MS:g} ms of network\n"
    )
    print("| slides | codes, GB | shards | replicas | slides per shard | p50 ms | p95 ms | p99 ms |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for slides, plans in ((1_000_000, [(1, 1), (4, 1)]), (100_000_000, [(16, 1), (64, 1), (64, 2)])):
        for shards, replicas in plans:
            service = per_code * slides / shards
            load = given.rate * service / 1000 / (AT_ONCE * replicas)
            size = slides * given.bits / 8e9
            start = f"| {slides:,} | {size:,.1f} | {shards} | {replicas} | {slides // shards:,} |"
            if load >= 1:
                print(f"{start} too slow for this rate ({load:.0%} of what it can do) |||")
                continue
            found = latencies(service, shards, replicas, given.rate)
            print(start, " | ".join(f"{found[int(share * QUERIES)]:,.0f}" for share in (0.5, 0.95, 0.99)), "|")
    print(f"\ningest at {given.slide_seconds:g} CPU seconds per slide, {CORES} cores per node\n")
    print("| slides | features, GB | codes, GB |", " | ".join(f"{nodes} node(s)" for nodes in given.nodes), "|")
    print("|---:|---:|---:|" + "---:|" * len(given.nodes))
    for slides in (10_000, 1_000_000, 100_000_000):
        hours = [slides * given.slide_seconds / 3600 / CORES / nodes for nodes in given.nodes]
        shown = " | ".join(f"{hour / 24:,.0f} d" if hour > 48 else f"{hour:,.1f} h" for hour in hours)
        print(f"| {slides:,} | {slides * FEATURE_BYTES / 1e9:,.0f} | {slides * given.bits / 8e9:,.2f} | {shown} |")


if __name__ == "__main__":
    main()
