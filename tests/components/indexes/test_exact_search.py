"""Every exact index gives the ids, distances and order of the definition, whatever the archive, mask and k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slideseek.types import Code, CodeSpec
from slideseek_components.indexes import hamming
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming
from slideseek_components.indexes.sparse import Sparse

CASES = [400, pytest.param(10_000, marks=pytest.mark.slow)]
QUERIES_AN_ARCHIVE = 20


def index_and_spec(name: str, rng: np.random.Generator) -> tuple[Any, CodeSpec]:
    direction = str(rng.choice(["query", "target", "symmetric"]))
    width, many = int(rng.choice([1, 7, 64, 70])), bool(rng.integers(2))
    if name.startswith("hamming"):
        return Hamming(direction=direction), CodeSpec("bits", width, many)  # type: ignore[arg-type]
    if name == "sparse":
        return Sparse(), CodeSpec("sparse", min(width, 9))
    return Cosine(direction=direction), CodeSpec("float", min(width, 9), many)  # type: ignore[arg-type]


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", ["hamming-numpy", "hamming-compiled", "cosine", "sparse"])
def test_random_searches_equal_the_definition(
    name: str, cases: int, oracle: Any, random_code: Callable[..., Code], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "hamming-compiled":
        monkeypatch.setattr(hamming, "COMPILED_AFTER", 0)
    rng = np.random.default_rng(20)
    for _ in range(cases // QUERIES_AN_ARCHIVE):
        index, spec = index_and_spec(name, rng)
        truth = oracle(getattr(index, "direction", "query"))
        count = int(rng.integers(0, 14))
        ids = [f"s{number:02d}" for number in rng.permutation(count)]
        spaces = rng.choice(["", "liver"], count) if rng.random() < 0.3 else [""] * count
        held = [random_code(rng, spec, slide_id, space) for slide_id, space in zip(ids, spaces)]
        for code in held[1::3]:  # exact duplicates: equal distances, decided by slide id
            code.rows.flags.writeable = True
            code.rows[:] = held[0].rows[: len(code)] if len(held[0]) >= len(code) else held[0].rows[0]
        cut = int(rng.integers(0, count + 1))
        index.add(held[:cut])
        index.add(held[cut:])
        queries = [
            random_code(rng, spec, "q", str(rng.choice(["", "", "", "liver"]))) for _ in range(QUERIES_AN_ARCHIVE)
        ]
        for query in queries:
            k = int(rng.integers(1, 20))
            among = None if rng.random() < 0.3 else rng.random(count) < rng.choice([0.0, 0.3, 0.9])
            assert index.search(query, k, among) == truth.search(held, query, k, among)
        among = rng.random(count) < 0.7
        few = queries[:4]
        assert index.search_many(few, 3, among) == [truth.search(held, query, 3, among) for query in few]
