"""The Hamming index: the definition of the set distance, and the compiled kernels against plain numpy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from slideseek.types import Code, CodeSpec, Hit
from slideseek_components.indexes import hamming, hamming_compiled
from slideseek_components.indexes.hamming import Hamming


def bags(rng: np.random.Generator, count: int, columns: int, most: int) -> list[Code]:
    sizes = rng.integers(1, most + 1, count)
    return [Code(f"s{n:05d}", rng.integers(0, 256, (size, columns), np.uint8)) for n, size in enumerate(sizes)]


@pytest.fixture(params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled":
        monkeypatch.setattr(hamming, "COMPILED_AFTER", 0)
    return str(request.param)


@pytest.mark.parametrize("direction", ["query", "target", "symmetric"])
def test_the_distance_of_a_thousand_pairs_of_bags_is_the_definition(direction: Any, engine: str) -> None:
    def naive(outer: Code, inner: Code) -> float:
        minima = []
        for row in outer.rows:
            far = [sum((int(a) ^ int(b)).bit_count() for a, b in zip(row, other)) for other in inner.rows]
            minima.append(min(far))
        return median(minima)

    rng = np.random.default_rng(7)
    for _ in range(1_000):
        query, target = bags(rng, 2, 3, 5)
        there, back = naive(query, target), naive(target, query)
        index = Hamming(direction=direction)
        index.add([target])
        expected = {"query": there, "target": back, "symmetric": (there + back) / 2}[direction]
        assert index.search(query, 1) == [Hit(target.slide_id, expected)]


@pytest.mark.parametrize("columns", [8, 64, 128, 79, 632])
def test_single_codes_are_at_their_plain_hamming_distance(columns: int, engine: str) -> None:
    rng = np.random.default_rng(columns)
    rows = rng.integers(0, 256, (1_500, columns), np.uint8)
    index = Hamming()
    index.add([Code(f"s{n:05d}", row[None]) for n, row in enumerate(rows)])
    query = rng.integers(0, 256, (1, columns), np.uint8)
    distances = np.bitwise_count(rows ^ query).sum(axis=1)
    expected = sorted(zip(distances.tolist(), index.ids))[:40]
    assert [(hit.distance, hit.slide_id) for hit in index.search(Code("q", query), 40)] == expected


@pytest.mark.parametrize("direction", ["query", "target", "symmetric"])
@pytest.mark.parametrize(("columns", "most"), [(64, 1), (13, 1), (128, 40), (20, 9)])
def test_compiled_batches_masks_and_segments_equal_numpy(
    columns: int, most: int, direction: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hamming_compiled, "SHARED_BYTES", 1)  # share even this small batch between threads
    monkeypatch.setattr(hamming_compiled, "BATCH", 5)
    rng = np.random.default_rng(columns)
    codes = bags(rng, 700, columns, most)
    plain = Hamming(direction=direction)
    plain.add(codes[:500])
    plain.save(tmp_path)
    plain.add(codes[500:])
    mapped = Hamming(direction=direction)
    mapped.load(tmp_path)
    mapped.add(codes[500:690])
    mapped.add(codes[690:])
    assert len(mapped.store_.segments) == 3
    queries = [Code("q", code.rows) for code in bags(rng, 11, columns, most)]
    for share in (None, 0.01, 0.5, 0.99):
        among = None if share is None else rng.random(700) < share
        monkeypatch.setattr(hamming, "COMPILED_AFTER", 1 << 60)
        expected = [plain.search(query, 30, among) for query in queries]
        monkeypatch.setattr(hamming, "COMPILED_AFTER", 0)
        assert mapped.search_many(queries, 30, among) == expected
        assert [mapped.search(query, 30, among) for query in queries] == expected


def test_many_equal_distances_at_the_cut_are_decided_by_id(engine: str) -> None:
    rng = np.random.default_rng(0)
    ids = [f"s{n:05d}" for n in rng.permutation(3_000)]
    index = Hamming()
    index.add([Code(slide_id, np.array([[n % 2]], np.uint8)) for n, slide_id in enumerate(ids)])
    hits = index.search(Code("q", np.zeros((1, 1), np.uint8)), 1_700)
    assert hits == [Hit(name, 0.0) for name in sorted(ids[0::2])] + [Hit(name, 1.0) for name in sorted(ids[1::2])[:200]]


def test_kernels_take_over_when_there_is_enough_work(monkeypatch: pytest.MonkeyPatch) -> None:
    index, query = Hamming(), Code("q", np.zeros((1, 8), np.uint8))
    index.add([Code(f"s{n}", np.full((1, 8), n, np.uint8)) for n in range(100)])
    monkeypatch.setattr(hamming, "COMPILED_AFTER", 3 * index.nbytes)
    calls = []
    compiled = hamming._compiled_find()

    def counted(*given):
        calls.append(1)
        return compiled(*given)

    monkeypatch.setattr(hamming, "_compiled_find", lambda: counted)
    answers = [index.search(query, 5) for _ in range(3)]
    assert len(calls) == 1 and index.prepared_[1] is None
    answers.append(index.search(query, 5))
    assert len(calls) == 1 and index.prepared_[1] is not None, "all that does not depend on the query is at hand now"
    assert answers[0] == answers[1] == answers[2] == answers[3]


def test_a_small_search_loads_no_compiler() -> None:
    script = (
        "import sys, numpy as np; from slideseek.types import Code;"
        "from slideseek_components.indexes.hamming import Hamming; index = Hamming();"
        "index.add([Code(str(n), np.full((1, 64), n, np.uint8)) for n in range(99)]);"
        "index.search(Code('q', np.zeros((1, 64), np.uint8)), 3);"
        "print(sorted({'numba', 'faiss', 'scipy', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_only_bits_are_accepted() -> None:
    assert Hamming().refuses(CodeSpec("bits", 9)) == Hamming().refuses(CodeSpec("bits", 9, many=True)) == ""
    assert "cosine" in Hamming().refuses(CodeSpec("float", 9))
    assert "cosine" in Hamming().refuses(CodeSpec("sparse", 9))


def test_an_unknown_direction_is_named() -> None:
    with pytest.raises(ValueError, match="direction: one of query, target, symmetric, not 'both'"):
        Hamming(direction="both")  # type: ignore[arg-type]
