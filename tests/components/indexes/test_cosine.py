"""The cosine indexes: exact whatever is asked around them, robust at the ends of float32, equal to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slideseek.types import Code, CodeSpec
from slideseek_components.indexes import cosine
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.sparse import Sparse


def codes(rng: np.random.Generator, count: int, width: int, most: int = 1, density: float = 1.0) -> list[Code]:
    made = []
    for number, size in enumerate(rng.integers(1, most + 1, count).tolist()):
        rows = rng.normal(size=(size, width)) * (rng.random((size, width)) < density)
        made.append(Code(f"s{number:05d}", rows.astype(np.float32)))
    return made


def one(slide_id: str, *values: float) -> Code:
    return Code(slide_id, np.array([values], np.float32))


@pytest.mark.parametrize(("width", "most"), [(1, 1), (3, 1), (300, 1), (2_500, 1), (64, 6)])
def test_distances_do_not_depend_on_mask_batch_or_neighbours(width: int, most: int) -> None:
    rng = np.random.default_rng(width)
    held = codes(rng, 300, width, most)
    queries = [Code("q", code.rows) for code in codes(rng, 7, width, most)]
    index = Cosine()
    index.add(held)
    alone = {}
    for code in held:
        single = Cosine()
        single.add([code])
        alone[code.slide_id] = [single.search(query, 1)[0].distance for query in queries]
    together = index.search_many(queries, 300)
    for place, query in enumerate(queries):
        among = rng.random(300) < 0.3
        for hits in (together[place], index.search(query, 300), index.search(query, 9), index.search(query, 9, among)):
            assert all(hit.distance == alone[hit.slide_id][place] for hit in hits)


@pytest.mark.parametrize("width", [5, 1_024, 5_000])
def test_the_rough_distances_keep_their_bound(width: int) -> None:
    rng = np.random.default_rng(width)
    held = codes(rng, 200, width)
    index = Cosine()
    index.add(held)
    query = (rng.normal(size=(1, width)) + held[0].rows).astype(np.float32)
    rough = cosine._rough_distances(index.store_, [cosine.scaled(query)], None, "query")[0]
    wide, rows = query[0].astype(np.float64), np.concatenate([code.rows for code in held]).astype(np.float64)
    exact = 1 - rows @ wide / np.linalg.norm(rows, axis=1) / np.linalg.norm(wide)
    assert np.abs(rough - exact).max() <= cosine.rough_error(width)


def test_near_equal_slides_are_not_lost_by_the_rough_pass() -> None:
    rng = np.random.default_rng(5)
    base = rng.normal(size=(1, 1_500))
    held = [Code(f"s{n:05d}", (base + 1e-3 * rng.normal(size=base.shape)).astype(np.float32)) for n in range(400)]
    query = Code("q", base.astype(np.float32))
    index = Cosine()
    index.add(held)
    whole = index.search(query, 400)
    assert index.search(query, 5) == whole[:5]
    assert len({hit.distance for hit in whole}) < 400  # some tie: the rough pass cannot tell them apart


@pytest.mark.parametrize("make", [Cosine, Sparse])
def test_values_at_the_ends_of_float32_keep_their_direction(make: Any) -> None:
    index = make()
    index.add([one("huge", 3e38, 3e38), one("tiny", 1e-44, 1e-44), one("other", 3e38, -3e38)])
    for query in (one("q", 2, 2), one("q", 3e38, 3e38), one("q", 1e-44, 1e-44)):
        assert [(hit.slide_id, hit.distance) for hit in index.search(query, 3)] == [
            ("huge", 0),
            ("tiny", 0),
            ("other", 1),
        ]


@pytest.mark.parametrize("make", [Cosine, Sparse])
def test_a_zero_vector_is_at_distance_one_from_everything(make: Any) -> None:
    index = make()
    index.add([one("a", 0, 0), one("b", 1, 0), one("c", -1, 0)])
    assert [(hit.slide_id, hit.distance) for hit in index.search(one("q", 1, 0), 3)] == [("b", 0), ("a", 1), ("c", 2)]
    assert {hit.distance for hit in index.search(one("q", 0, 0), 3)} == {1.0}


def test_sparse_and_cosine_give_the_same_hits() -> None:
    rng = np.random.default_rng(9)
    held, queries = codes(rng, 400, 3_000, density=0.02), codes(rng, 70, 3_000, density=0.02)
    dense, sparse = Cosine(), Sparse()
    for index in (dense, sparse):
        index.add(held[:250])
        index.add(held[250:])
    assert sparse.search_many(queries, 12) == dense.search_many(queries, 12)
    assert sparse.search_many(queries, 12) == [sparse.search(query, 12) for query in queries]
    assert sparse.nbytes < dense.nbytes / 10


def test_what_each_index_refuses() -> None:
    assert Cosine().refuses(CodeSpec("float", 9, many=True)) == Cosine().refuses(CodeSpec("sparse", 9)) == ""
    assert "hamming" in Cosine().refuses(CodeSpec("bits", 9))
    assert Sparse().refuses(CodeSpec("sparse", 9)) == ""
    assert "cosine" in Sparse().refuses(CodeSpec("sparse", 9, many=True))
    assert "cosine" in Sparse().refuses(CodeSpec("float", 9))
    assert "hamming" in Sparse().refuses(CodeSpec("bits", 9))


def test_an_unknown_direction_is_named() -> None:
    with pytest.raises(ValueError, match="direction: one of query, target, symmetric, not 'both'"):
        Cosine(direction="both")  # type: ignore[arg-type]
