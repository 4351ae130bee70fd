"""Indexes on real servers: exactly the hits of `hamming`, also while servers are killed, restarted and down."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.servers import PASSWORD
from slideseek.errors import DamagedError, UnavailableError
from slideseek.types import Code, CodeSpec, Filter, SlideRecord
from slideseek_components.indexes import remote
from slideseek_components.indexes.hamming import Hamming

COUNT = 10_000
WHERE = (
    (Filter("patient", False, "not in", ("p7", "p8")), Filter("id", False, "not in", ("s00031",))),
    (Filter("site", False, "=", ("lung",)), Filter("center", False, "not in", ("c1",))),
    (Filter("age", True, ">=", ("60",)),),
)

Make = Callable[[], Any]


def codes_of(count: int, bits: int, seed: int = 0) -> list[Code]:
    """Make codes of which every tenth has 20 twins, so that ties are everywhere."""
    rows = np.random.default_rng(seed).integers(0, 256, (count, bits // 8), dtype=np.uint8)
    rows[::10] = rows[np.arange(0, count, 10) // 200 * 200]
    return [Code(f"s{number:05d}", rows[number : number + 1]) for number in range(count)]


def records_of(codes: list[Code]) -> dict[str, SlideRecord]:
    return {
        code.slide_id: SlideRecord(
            code.slide_id,
            "",
            patient=f"p{number // 4}",
            site=("lung", "skin", "colon")[number % 3],
            center=f"c{number % 5}",
            fields={"age": str(40 + number % 50)},
        )
        for number, code in enumerate(codes)
    }


@pytest.fixture(scope="module")
def archive() -> Callable[[int], tuple[list[Code], Hamming]]:
    """Codes of a width, and the local index of them; made once."""
    made: dict[int, tuple[list[Code], Hamming]] = {}

    def of(bits: int) -> tuple[list[Code], Hamming]:
        if bits not in made:
            codes, index = codes_of(COUNT, bits), Hamming()
            index.add(codes)
            made[bits] = codes, index
        return made[bits]

    return of


@pytest.fixture(params=["pgvector", "pgvector-2", "lance", "lance-s3", "milvus"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make an index of one engine; the server is started when it is first needed."""
    return engine(request.param, request, tmp_path, monkeypatch)


def engine(name: str, request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    if name.startswith("pgvector"):
        one, two = request.getfixturevalue("postgres")
        from slideseek_components.indexes.pgvector import PgVector

        monkeypatch.setenv("PG_ONE", one.conninfo())
        monkeypatch.setenv("PG_TWO", two.conninfo())
        return lambda: PgVector(shards=("PG_ONE", "PG_TWO") if name.endswith("2") else ("PG_ONE",))
    if name == "milvus":
        from slideseek_components.indexes.milvus import Milvus

        monkeypatch.setenv("SLIDESEEK_MILVUS", request.getfixturevalue("milvus"))
        return lambda: Milvus(seconds=20.0)
    from slideseek_components.indexes.lance import Lance

    if name == "lance":
        return lambda: Lance(uri=str(folder / "lance"))
    endpoint = request.getfixturevalue("s3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "loopback")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
    return lambda: Lance(uri="s3://slides/index", endpoint=endpoint, region="us-east-1")


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Save codes with an index and load them again; what was saved is deleted in the end."""
    kept: list[tuple[Any, Path]] = []

    def save(index: Any, make: Make, records: dict[str, SlideRecord] | None = None, version: int = 1) -> Any:
        folder = tmp_path / f"saved{len(kept)}"
        folder.mkdir()
        index.settle(f"slideseek_test{os.getpid()}_{abs(hash(tmp_path)) % 10**10}_1")
        index.describe(records or {}, version)
        index.save(folder)
        again = make()
        again.load(folder)
        kept.append((again, folder))
        return again

    yield save
    for index, folder in kept[:1]:
        index.settle(f"{index.place_[:-1]}0")
        index.discard(folder)


def hits(index: Any, query: Code, k: int, among: Any = None) -> list[tuple[str, float]]:
    return [(hit.slide_id, hit.distance) for hit in index.search(query, k, among)]


def require_equal(index: Any, local: Hamming, codes: list[Code], records: dict[str, SlideRecord]) -> None:
    """Compare with the local index: plain, with masks narrow, wide and half, and with filters."""
    rng, ids = np.random.default_rng(1), list(local.ids)
    assert list(index.ids) == sorted(ids)
    fresh = Code("query", rng.integers(0, 256, codes[0].rows.shape, dtype=np.uint8))
    for query in (codes[0], codes[31], fresh):
        for k in (1, 10, 30):  # 21 slides are equal to codes[0]: the cut is among ties
            assert hits(index, query, k) == hits(local, query, k)
        for share in (0.002, 0.5, 0.995):
            chosen = {slide_id for slide_id in ids if rng.random() < share}
            mine, theirs = (np.array([one in chosen for one in which.ids]) for which in (index, local))
            assert hits(index, query, 10, mine) == hits(local, query, 10, theirs)
        for where in WHERE:
            among = np.array([all(one(records[slide_id]) for one in where) for slide_id in ids])
            got = [(hit.slide_id, hit.distance) for hit in index.search_where(query, 10, where)]
            assert got == hits(local, query, 10, among) and index.count_where(where) == among.sum()


@pytest.mark.parametrize("bits", [5_000, 40_000])
def test_hits_are_those_of_hamming(make, saved, archive, bits):
    index = make()
    if reason := index.refuses(CodeSpec("bits", bits)):
        assert "at most 32768 bits" in reason
        bits = 32_768
        assert not index.refuses(CodeSpec("bits", bits)) and index.refuses(CodeSpec("bits", bits + 1))
    codes, local = archive(bits)
    records = records_of(codes)
    index.add(codes)
    require_equal(saved(index, make, records), local, codes, records)


def test_changes_are_visible_at_once_and_after_saving(make, saved):
    codes = codes_of(400, 512)
    records = records_of(codes)
    index = make()
    index.add(codes[:300])
    index = saved(index, make, records)
    index.remove([code.slide_id for code in codes[5:9]])
    changed = [replace(code, rows=255 - code.rows) for code in codes[5:7]]
    index.add([*changed, *codes[300:]])
    local = Hamming()
    local.add([*codes[:5], *changed, *codes[9:]])
    held = {slide_id: records[slide_id] for slide_id in local.ids}
    for query in (codes[0], changed[0], codes[350]):
        assert hits(index, query, 30) == hits(local, query, 30)
    again = saved(index, make, held, version=2)
    require_equal(again, local, codes, records)
    assert again.described == 2 and index.described == -1


@pytest.mark.parametrize("direction", ["query", "target", "symmetric"])
def test_sets_of_barcodes_are_compared_on_the_server(request, tmp_path, monkeypatch, saved, direction):
    make = engine("pgvector-2", request, tmp_path, monkeypatch)
    rng = np.random.default_rng(3)
    codes = [
        Code(f"s{number:03d}", rng.integers(0, 4, (int(rng.integers(1, 9)), 8), dtype=np.uint8))
        for number in range(300)
    ]
    index, local = make(), Hamming(direction=direction)
    index.add(codes)
    local.add(codes)
    index = saved(index, make)
    index.direction = direction
    for query in codes[:20]:
        assert hits(index, query, 25) == hits(local, query, 25)


def test_a_restarted_server_has_lost_nothing_and_one_that_is_down_is_named(request, tmp_path, monkeypatch, saved):
    make = engine("pgvector-2", request, tmp_path, monkeypatch)
    servers = request.getfixturevalue("postgres")
    codes = codes_of(500, 512)
    index, local = make(), Hamming()
    index.add(codes)
    local.add(codes)
    index = saved(index, make)
    expected = hits(local, codes[3], 10)
    assert hits(index, codes[3], 10) == expected
    servers[1].stop()
    try:
        started = time.monotonic()
        with pytest.raises(UnavailableError, match="shard 'PG_TWO'"):
            index.search(codes[3], 10)
        assert time.monotonic() - started < 5
    finally:
        servers[1].start()
    assert hits(index, codes[3], 10) == expected  # the same index: it connects again
    os.kill(servers[0].pid, signal.SIGSTOP)  # a server that hangs
    backends = [int(pid) for pid in subprocess.check_output(["pgrep", "-P", str(servers[0].pid)]).split()]
    try:
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        index.seconds = 1.0
        with pytest.raises(UnavailableError, match=r"shard 'PG_ONE'.*no answer in 3 s"):
            index.search(codes[3], 10)
    finally:
        for pid in (*backends, servers[0].pid):
            os.kill(pid, signal.SIGCONT)


LOADER = """
import os, sys
from pathlib import Path
import numpy as np
from slideseek.types import Code
from slideseek_components.indexes import postgres_shard, lance_shard
from slideseek_components.indexes.{module} import {kind}
postgres_shard.BATCH = lance_shard.BATCH = 200
print("ready", flush=True)
for number, line in enumerate(sys.stdin):
    if "{kind}" == "PgVector" and os.fork():  # the libraries take seconds to import; lance cannot be forked
        os.wait()
        print("ended", flush=True)
        continue
    rows = np.random.default_rng(number % 3).integers(0, 256, (3000, 64), dtype=np.uint8)
    index = {kind}({options})
    index.add([Code(f"s{{one:05d}}", rows[one : one + 1]) for one in range(3000)])
    index.settle(sys.argv[1])
    folder = Path(line.strip())
    folder.mkdir()
    print(os.getpid(), flush=True)
    index.save(folder)
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kills"), [("pgvector", 20), ("lance", 3)])
def test_kills_during_loading_lose_nothing_that_was_saved(request, tmp_path, monkeypatch, name, kills):
    make = engine(name, request, tmp_path, monkeypatch)
    place = f"slideseek_killed{os.getpid()}_kit_1"
    known = codes_of(500, 512)
    index, local = make(), Hamming()
    index.add(known)
    local.add(known)
    index.settle(place)
    first = tmp_path / "first"
    first.mkdir()
    index.save(first)
    kind, options = "PgVector", "shards=('PG_ONE',)"
    if name == "lance":
        kind, options = "Lance", f"uri={str(tmp_path / 'lance')!r}"
    script = LOADER.format(module=name, kind=kind, options=options)
    rng, cut, attempt, longest = np.random.default_rng(0), 0, 0, 0.15
    start = [sys.executable, "-c", script, place]
    loader: Any = None
    while cut < kills:
        assert attempt < 5 * kills, f"only {cut} loaders were killed before they were done"
        if loader is None or name == "lance":
            loader = subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            assert loader.stdin is not None and loader.stdout is not None and loader.stdout.readline() == "ready\n"
        folder = tmp_path / f"part{attempt}"
        loader.stdin.write(f"{folder}\n")
        pid = int(loader.stdout.readline())
        time.sleep(float(rng.uniform(0, longest)))
        with contextlib.suppress(ProcessLookupError):  # it was done already: one more is loaded and killed
            os.kill(pid, signal.SIGKILL)
        assert loader.stdout.readline() in ("ended\n", "")
        if (folder / "header.json").exists():
            longest *= 0.8
        else:
            cut += 1
        attempt += 1
        if attempt % 4 == 3:
            again = make()
            again.load(first)
            assert list(again.ids) == [code.slide_id for code in known]
            assert hits(again, known[0], 30) == hits(local, known[0], 30)
    loader.kill()
    loader.wait()
    index = make()
    index.load(first)
    index.remove([known[1].slide_id])
    index.settle(place)
    last = tmp_path / "last"
    last.mkdir()
    index.save(last)
    again, want = make(), Hamming()
    again.load(last)
    want.add([known[0], *known[2:]])
    assert hits(again, known[0], 30) == hits(want, known[0], 30)
    again.settle(f"{place[:-1]}0")
    again.discard(last)


def test_a_flipped_bit_is_named_and_the_rest_is_used(request, tmp_path, monkeypatch, saved):
    make = engine("lance", request, tmp_path, monkeypatch)
    codes = codes_of(300, 5_000)
    index = make()
    index.add(codes)
    index = saved(index, make)
    damaged = codes[123]
    file, place = next(
        (file, place)
        for file in (tmp_path / "lance").rglob("*.lance")
        if file.is_file() and (place := file.read_bytes().find(damaged.rows.tobytes())) > 0
    )
    content = bytearray(file.read_bytes())
    content[place + 300] ^= 4
    file.write_bytes(content)
    again = make()
    again.load(tmp_path / "saved0")
    assert again.damaged == (damaged.slide_id,)
    with pytest.raises(DamagedError, match=damaged.slide_id):
        index.search(damaged, 3)  # opened before: the hit itself is compared with its checksum


def test_a_mask_too_long_to_send_is_answered_by_asking_for_more(request, tmp_path, monkeypatch, saved, archive):
    make = engine("pgvector", request, tmp_path, monkeypatch)
    monkeypatch.setattr(remote, "LISTED", 5)
    codes = codes_of(600, 512)
    index, local = make(), Hamming()
    index.add(codes)
    local.add(codes)
    index = saved(index, make)
    index.remove([code.slide_id for code in codes[:20]])
    local.remove([code.slide_id for code in codes[:20]])
    for share in (0.01, 0.3, 0.97):
        chosen = {slide_id for slide_id in local.ids if np.random.default_rng(len(slide_id)).random() < share}
        chosen |= {code.slide_id for code in codes[40:60]}
        mine, theirs = (np.array([one in chosen for one in which.ids]) for which in (index, local))
        for query in (codes[0], codes[50]):
            assert hits(index, query, 7, mine) == hits(local, query, 7, theirs)
            assert hits(index, query, 7) == hits(local, query, 7)


def test_a_bound_from_a_sample_changes_no_answer(request, tmp_path, monkeypatch, saved):
    make = engine("pgvector-2", request, tmp_path, monkeypatch)
    shard = pytest.importorskip("slideseek_components.indexes.postgres_shard")
    monkeypatch.setattr(shard, "SAMPLED", 60)
    bounds, method = [], shard.PostgresShard._bound

    def kept(*given):
        bounds.append(method(*given))
        return bounds[-1]

    monkeypatch.setattr(shard.PostgresShard, "_bound", kept)
    codes = codes_of(4000, 512)
    records = records_of(codes)
    index, local = make(), Hamming()
    index.add(codes)
    local.add(codes)
    require_equal(saved(index, make, records), local, codes, records)
    assert any(bound for bound, _ in bounds), "a large table has a bound"
    assert any(not bound for bound, _ in bounds), "many hits need no sample"


def test_an_approximate_search_finds_as_many_hits_with_a_filter(request, tmp_path, monkeypatch, saved):
    from slideseek_components.indexes.pgvector import PgVector

    engine("pgvector", request, tmp_path, monkeypatch)
    codes = codes_of(2000, 512)
    records, local = records_of(codes), Hamming()
    local.add(codes)

    def make() -> PgVector:
        return PgVector(shards=("PG_ONE",), hnsw=40)

    index = make()
    assert not index.exact
    index.add(codes)
    index = saved(index, make, records)
    where = [Filter("patient", False, "in", tuple(f"p{number}" for number in range(40)))]
    among = np.array([where[0](records[slide_id]) for slide_id in local.ids])
    found = [
        len({hit.slide_id for hit in index.search_where(query, 10, where)} & dict(hits(local, query, 10, among)).keys())
        for query in codes[1:200:20]
    ]
    assert all(len(index.search_where(query, 10, where)) == 10 for query in codes[1:200:20])
    assert np.mean(found) > 9


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shards": ()}, "shards: at least one"),
        ({"shards": ("A", "A")}, "each once"),
        ({"shards": ("postgresql://me:secret@db/x",)}, "environment"),
        ({"schema": "Public; DROP"}, "schema"),
        ({"seconds": 0.0}, "seconds"),
        ({"hnsw": -1}, "hnsw"),
        ({"direction": "up"}, "direction"),
    ],
)
def test_options_of_pgvector_are_checked(options, said):
    pgvector = pytest.importorskip("slideseek_components.indexes.pgvector")
    with pytest.raises(ValueError, match=said) as error:
        pgvector.PgVector(**options)
    assert "secret" not in str(error.value)
