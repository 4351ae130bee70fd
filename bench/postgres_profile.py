"""Where the time of a search in PostgreSQL goes: `python -m bench.postgres_profile [--slides N] [--bits N]`.

One server on loopback holds all codes. Times are CPU milliseconds of the server per query, so that other load on the
machine counts little; the local index `hamming` is measured in the same run. Statements that do ever more of the work
of a search, without parallel workers, show what each step adds. Then the search itself runs with settings that might
speed it up. `python -m bench.remote_indexes` has the wall times of one server and of two.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.search_speed import clustered_bits
from bench.servers import Postgres
from slideseek.types import Code
from slideseek_components.indexes.hamming import COMPILED_AFTER, Hamming
from slideseek_components.indexes.pgvector import PgVector
from slideseek_components.indexes.postgres_sql import conditions

K = 10
SETTINGS: Sequence[tuple[str, dict[str, str]]] = (
    ("as configured", {}),
    ("1 parallel worker", {"max_parallel_workers_per_gather": "1"}),
    ("2 parallel workers", {"max_parallel_workers_per_gather": "2"}),
    ("2 workers, leader waits", {"max_parallel_workers_per_gather": "2", "parallel_leader_participation": "off"}),
    ("jit", {"jit": "on", "jit_above_cost": "0"}),
    ("prepared plan", {"plan_cache_mode": "force_generic_plan"}),
)
"""What is tried with the whole search; parallel workers are off unless named."""


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def load(server: Postgres, folder: Path, codes: Sequence[Code]) -> PgVector:
    """Return an index of the codes on one server."""
    os.environ["BENCH_PG"] = server.prepare()
    index = PgVector(shards=("BENCH_PG",), seconds=600.0)
    index.add(codes)
    index.settle(f"slideseek_profile_{len(codes)}")
    folder.mkdir()
    index.save(folder)
    loaded = PgVector(shards=("BENCH_PG",), seconds=600.0)
    loaded.load(folder)
    return loaded


def cpu_of(server: Postgres) -> float:
    """Return the CPU seconds that a server and all its processes, also those that ended, have used."""
    import psutil

    root = psutil.Process(server.pid)
    alive = [one.cpu_times() for one in root.children()]
    return float(sum(root.cpu_times()[:4]) + sum(sum(one[:2]) for one in alive))


def measured(server: Postgres, run: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the CPU milliseconds of the server and the median wall milliseconds of one call."""
    run()
    walls, before = [], cpu_of(server)
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        walls.append(time.perf_counter() - started)
    return 1000 * (cpu_of(server) - before) / rounds, 1000 * median(walls)


def steps(shard: Any, query: Code, token: int) -> list[tuple[str, str, list[Any]]]:
    """Return statements that do ever more of a search: what each adds, the statement and its parameters."""
    table, value, given = shard.table, shard._value(query.rows[0]), list[Any]()
    passing = conditions((), token, query.space, given)
    distance = "(code <~> %s)"
    four = " + ".join([distance] * 4)
    bound, more = shard._bound(value, K, passing, given)
    ranked = f"SELECT id, {distance} AS d FROM {table} WHERE {passing}"
    return [
        ("rows visited", f"SELECT count(space) FROM {table}", []),
        ("conditions checked", f"SELECT count(*) FROM {table} WHERE {passing}", given),
        ("code found in its row", f"SELECT count(*) FROM {table} WHERE {passing} AND length(code) < 0", given),
        ("code read, compared", f"SELECT count(*) FROM {table} WHERE {passing} AND {distance} < 0", [*given, value]),
        ("compared 3 times more", f"SELECT count(*) FROM {table} WHERE {passing} AND {four} < 0", given + 4 * [value]),
        ("ranked, all rows", f"{ranked} ORDER BY d, id LIMIT {K}", [value, *given]),
        ("ranked, below a bound", f"{ranked} {bound} ORDER BY d, id LIMIT {K}", [value, *given, *more]),
    ]


def profile(server: Postgres, index: PgVector, query: Code, rounds: int) -> None:
    """Print what each step of a search costs."""
    saved = index.saved_
    assert saved is not None
    shard: Any = saved.shards[0]
    slides = saved.slides
    shard._all("SELECT set_config('max_parallel_workers_per_gather', '0', false)")
    found: dict[str, float] = {}
    say(f"\n{'statement':<24} {'CPU ms':>8} {'ns per row':>11}")
    for name, statement, given in steps(shard, query, saved.tokens[0]):
        found[name], _ = measured(server, partial(shard._all, statement, given), rounds)
        say(f"{name:<24} {found[name]:>8.1f} {1e6 * found[name] / slides:>11.0f}")
    again = (found["compared 3 times more"] - found["code read, compared"]) / 3
    reading = found["code read, compared"] - found["code found in its row"] - again
    total = found["ranked, all rows"]
    parts = {
        "visiting rows": found["rows visited"],
        "conditions": found["conditions checked"] - found["rows visited"],
        "reaching the code": found["code found in its row"] - found["conditions checked"],
        "fetching the code from memory": reading,
        "the distance function": again,
        "sorting": total - found["code read, compared"],
    }
    say("\nshare of a search that ranks all rows")
    for name, part in parts.items():
        say(f"  {name:<30} {100 * part / total:>5.0f} %")
    say(f"  a search with a bound takes {found['ranked, below a bound'] / total:.2f} of it")


def settings(server: Postgres, index: PgVector, query: Code, rounds: int, base: float) -> None:
    """Print the whole search with one setting after the other. base: wall milliseconds of the local index."""
    saved = index.saved_
    assert saved is not None
    shard: Any = saved.shards[0]
    say(f"\n{'one server, setting':<26} {'CPU ms':>8} {'wall ms':>8} {'x local':>8}")
    for name, values in SETTINGS:
        shard.pool.clear()
        for key, value in {"max_parallel_workers_per_gather": "0", **values}.items():
            shard._all("SELECT set_config(%s, %s, false)", [key, value])
        cpu, wall = measured(server, lambda: index.search(query, K), rounds)
        say(f"{name:<26} {cpu:>8.1f} {wall:>8.1f} {wall / base:>8.1f}")
    shard.pool.clear()


def storage(server: Postgres, index: PgVector, query: Code, rounds: int) -> None:
    """Print the search on codes that PostgreSQL moves out of their rows, as it does by default above 2 kB."""
    saved = index.saved_
    assert saved is not None
    shard: Any = saved.shards[0]
    value, table = shard._value(query.rows[0]), shard.table
    for kind in ("PLAIN", "EXTERNAL", "EXTENDED"):
        shard._all("SELECT set_config('max_parallel_workers_per_gather', '0', false)")
        with shard._connected() as connection:
            connection.execute("DROP TABLE IF EXISTS slideseek.stored")
            connection.execute(f"CREATE TABLE slideseek.stored (id text, code bit({8 * query.rows.shape[1]}))")
            connection.execute(f"ALTER TABLE slideseek.stored ALTER COLUMN code SET STORAGE {kind}")
            connection.execute(f"INSERT INTO slideseek.stored SELECT id, code FROM {table}")
            connection.execute("VACUUM ANALYZE slideseek.stored")
        compare = partial(shard._all, "SELECT count(*) FROM slideseek.stored WHERE code <~> %s < 0", [value])
        cpu, _ = measured(server, compare, rounds)
        say(f"storage {kind:<18} {cpu:>8.1f}")
    with shard._connected() as connection:
        connection.execute("DROP TABLE slideseek.stored")


def main() -> None:
    """Print the profile."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slides", type=int, default=100_000)
    parser.add_argument("--bits", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=20, help="queries per statement")
    parser.add_argument("--memory", default="1GB", help="shared buffers of the server")
    given = parser.parse_args()
    rows = clustered_bits(given.slides, given.bits, seed=1)
    codes = [Code(f"s{number:07d}", rows[number : number + 1]) for number in range(given.slides)]
    query = Code("query", clustered_bits(1, given.bits, seed=2))
    local = Hamming()
    local.add(codes)
    local.compared_ = COMPILED_AFTER
    expected = local.search(query, K)
    walls, before = [], time.process_time()
    for _ in range(given.rounds):
        started = time.perf_counter()
        local.search(query, K)
        walls.append(1000 * (time.perf_counter() - started))
    cpu, base = 1000 * (time.process_time() - before) / given.rounds, median(walls)
    say(f"{given.slides} codes of {given.bits} bits, k = {K}, {rows.nbytes / 1e6:.0f} MB")
    say(f"hamming: {cpu:.2f} CPU ms, {base:.2f} wall ms, {1e6 * cpu / given.slides:.0f} ns per row")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        server = Postgres(Path(name) / "postgres", memory=given.memory)
        stack.callback(server.close)
        index = load(server, Path(name) / "saved", codes)
        if index.search(query, K) != expected:
            raise SystemExit("pgvector found other slides than hamming")
        profile(server, index, query, given.rounds)
        settings(server, index, query, given.rounds, base)
        storage(server, index, query, given.rounds)


if __name__ == "__main__":
    main()
