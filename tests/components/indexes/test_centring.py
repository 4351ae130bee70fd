"""The centring of the Hamming index: its hits against the definition, whatever was added, removed and saved before."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.errors import DamagedError
from slideseek.types import Code, Hit
from slideseek_components.indexes import hamming
from slideseek_components.indexes.hamming import Hamming

DIRECTIONS = ["query", "target", "symmetric"]


@pytest.fixture(params=["numpy", "compiled"])
def few_references(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Take five references, so that most slides are none; search in numpy, or with the compiled kernels."""
    if request.param == "compiled":
        monkeypatch.setattr(hamming, "COMPILED_AFTER", 0)
    monkeypatch.setattr(hamming, "REFERENCES", 5)
    return 5


def shifts(truth: Any, held: Sequence[Code], share: float, count: int) -> dict[str, float]:
    """Return what is added to the distance of each slide, by the definition."""
    found = {}
    for space in {code.space for code in held}:
        here = [code for code in held if code.space == space]
        references = sorted(here, key=lambda code: hashlib.sha256(code.slide_id.encode()).digest())[:count]
        near = {}
        for code in here:
            far = sorted(truth.distance(other, code) for other in references if other.slide_id != code.slide_id)
            half = far[: (len(far) + 1) // 2]
            near[code.slide_id] = sum(half) / len(half) if half else None
        most = max((value for value in near.values() if value is not None), default=0.0)
        for name, value in near.items():
            found[name] = 0.0 if value is None else round(4 * share * (most - value)) / 4
    return found


def searched(truth: Any, held: Sequence[Code], query: Code, share: float, count: int) -> list[Hit]:
    """Return every hit, by the definition."""
    added = shifts(truth, held, share, count)
    here = [code for code in held if code.space == query.space]
    ranked = sorted((truth.distance(query, code) + added[code.slide_id], code.slide_id) for code in here)
    return [Hit(name, distance) for distance, name in ranked]


def some(rng: np.random.Generator, names: Sequence[str], spaces: Sequence[str] = ("",), most: int = 6) -> list[Code]:
    return [
        Code(name, rng.integers(0, 256, (int(rng.integers(1, most + 1)), 9), np.uint8), str(rng.choice(list(spaces))))
        for name in names
    ]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_hits_are_those_of_the_definition_after_any_changes(
    direction: Any, few_references: int, oracle: Any, tmp_path: Path
) -> None:
    rng, truth = np.random.default_rng(3), oracle(direction)
    for case in range(6):
        index = Hamming(direction=direction, centring=0.75)
        held: dict[str, Code] = {}
        spaces = ("", "liver") if case % 2 else ("",)
        for step in range(5):
            new = some(rng, [f"s{case}-{step}-{i}" for i in range(int(rng.integers(1, 9)))], spaces)
            index.add(new)
            held |= {code.slide_id: code for code in new}
            query = some(rng, ["q"])[0]
            gone = [str(name) for name in rng.permutation(sorted(held))[: int(rng.integers(0, 3))]]
            index.remove(gone)
            for name in gone:
                del held[name]
            again = some(rng, gone[:1], spaces)  # another code under the id of one that was removed
            index.add(again)
            held |= {code.slide_id: code for code in again}
            if step == 3:
                folder = tmp_path / str(case)
                folder.mkdir()
                index.save(folder)
                index = Hamming(direction=direction, centring=0.75)
                index.load(folder)
            slides = [held[name] for name in index.ids]
            expected = searched(truth, slides, query, 0.75, few_references)
            assert index.search(query, 100) == expected
            assert index.search(query, 3) == expected[:3]
            assert index.search_many([query, query], 2) == [expected[:2]] * 2
            kept = rng.random(len(slides)) < 0.5
            chosen = {code.slide_id for code, one in zip(slides, kept) if one}
            assert index.search(query, 100, kept) == [hit for hit in expected if hit.slide_id in chosen]
            wanted = shifts(truth, slides, 0.75, few_references)
            assert {code.slide_id: index.shift(code.slide_id) for code in slides} == wanted


def test_the_order_of_adding_changes_nothing(few_references: int) -> None:
    rng = np.random.default_rng(1)
    codes, query = some(rng, [f"s{i}" for i in range(30)]), some(rng, ["q"])[0]
    found = []
    for order in (range(30), reversed(range(30)), rng.permutation(30).tolist()):
        index = Hamming(direction="symmetric", centring=0.5)
        for place in order:
            index.add([codes[place]])
            index.search(query, 1)
        found.append(index.search(query, 30))
    assert found[0] == found[1] == found[2]


def test_a_saved_table_is_used_and_checked(
    few_references: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    index = Hamming(centring=0.75)
    index.add(some(rng, [f"s{i}" for i in range(20)]))
    query = some(rng, ["q"])[0]
    expected = index.search(query, 20)
    index.save(tmp_path)
    again = Hamming(centring=0.75)
    again.load(tmp_path)
    monkeypatch.setattr(Hamming, "_from_slot", None)  # nothing is measured again
    assert again.search(query, 20) == expected
    path = tmp_path / "references-query.npy"
    np.save(path, np.zeros((19, 5), np.int32))
    with pytest.raises(DamagedError, match=path.name):
        Hamming(centring=0.75).load(tmp_path)


def test_a_slide_that_is_near_to_all_is_found_less_often() -> None:
    """One slide has every pattern: by the distance alone, it is nearest to all."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (12, 64), np.uint8)

    def rows(which: Sequence[int]) -> np.ndarray[Any, Any]:
        noise = np.packbits(rng.random((len(which), 512)) < 0.2, axis=1)
        return np.asarray(patterns[list(which)] ^ noise)

    codes = [Code(f"s{i:02d}", rows([i % 12, (i + 1) % 12])) for i in range(24)]
    hub = Code("hub", rows([i % 12 for i in range(120)]))

    def found(**options: Any) -> int:
        index = Hamming(**options)
        index.add([*codes, hub])
        hits = [index.search(code, 4) for code in codes]
        return sum(hit.slide_id == "hub" for some in hits for hit in some)

    assert found() == 24
    assert found(direction="symmetric", centring=0.75) < 12


def test_without_centring_nothing_is_added() -> None:
    index = Hamming()
    index.add(some(np.random.default_rng(0), ["a", "b"]))
    assert index.shift("a") == 0.0 and not index.tables_


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_out_of_range_is_named(share: float) -> None:
    with pytest.raises(ValueError, match="centring: must be from 0 to 1"):
        Hamming(centring=share)
