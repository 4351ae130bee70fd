"""Approximate indexes: what they find, what they say about it, and that masks, spaces and removal hold exactly."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.errors import DamagedError, SlideseekError
from slideseek.interfaces import BatchIndex, implements
from slideseek.options import changed_copy, query_options
from slideseek.types import Code, CodeSpec
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.faiss_binary import FaissBinary
from slideseek_components.indexes.hamming import Hamming
from slideseek_components.indexes.recall import LowRecallWarning

pytest.importorskip("annoy")

from slideseek_components.indexes.annoy_forest import Annoy  # needs annoy

COUNT, WIDTH = 1_500, 96


def annoy(**options: Any) -> Annoy:
    return Annoy(**{"exact_below": 100, "n_trees": 20, "search_k": 3_000} | options)


def ivf(**options: Any) -> FaissBinary:
    return FaissBinary(**{"exact_below": 100} | options)


def hnsw(**options: Any) -> FaissBinary:
    return FaissBinary(**dict[str, Any](exact_below=100, method="hnsw") | options)


def clustered(kind: str, count: int = COUNT, space: Callable[[int], str] = lambda number: "") -> list[Code]:
    """Make codes around 40 centres: an archive in which neighbours mean something."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(40, WIDTH))
    values = centres[rng.integers(0, 40, count)] + 0.5 * rng.normal(size=(count, WIDTH))
    rows = np.packbits(values > 0, axis=1) if kind == "bits" else values.astype(np.float32)
    return [Code(f"s{number:05d}", row[None], space(number)) for number, row in enumerate(rows)]


MAKERS = [(annoy, "bits", Hamming), (annoy, "float", Cosine), (ivf, "bits", Hamming), (hnsw, "bits", Hamming)]
each_kind = pytest.mark.parametrize(("make", "kind", "exact"), MAKERS)


@each_kind
def test_most_true_neighbours_are_found_at_their_exact_distances(make: Any, kind: str, exact: Any) -> None:
    codes = clustered(kind)
    index, truth = make(), exact()
    index.add(codes[100:])
    truth.add(codes[100:])
    found = 0
    for code in codes[:100]:
        hits, true_hits = index.search(code, 10), truth.search(code, 10)
        everything = {hit.slide_id: hit.distance for hit in truth.search(code, COUNT)}
        assert [(hit.distance, hit.slide_id) for hit in hits] == sorted((hit.distance, hit.slide_id) for hit in hits)
        assert all(hit.distance == everything[hit.slide_id] for hit in hits)
        found += sum(hit.distance <= true_hits[-1].distance for hit in hits)
    assert found / 1_000 >= 0.95
    assert index.recalls[""] >= 0.95
    assert implements(index, BatchIndex)


@each_kind
@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.9])
def test_masked_slides_never_appear_and_k_are_found(make: Any, kind: str, exact: Any, share: float) -> None:
    codes = clustered(kind)
    index = make()
    index.add(codes)
    among = np.random.default_rng(1).random(COUNT) < share
    allowed = {code.slide_id for code, keep in zip(codes, among) if keep}
    for code in codes[:20]:
        hits = index.search(code, 8, among)
        assert {hit.slide_id for hit in hits} <= allowed
        assert len({hit.slide_id for hit in hits}) == min(8, len(allowed))


@each_kind
def test_spaces_removal_and_additions_after_a_build(make: Any, kind: str, exact: Any) -> None:
    codes = clustered(kind, space=lambda number: "liver" if number % 3 else "lung")
    index = make()
    index.add(codes[:-1])
    query = Code("q", codes[-1].rows, "liver" if (COUNT - 1) % 3 else "lung")
    before = [hit.slide_id for hit in index.search(query, 5)]
    assert all(codes[int(slide_id[1:])].space == query.space for slide_id in before)
    index.remove(before[:2])
    after = [hit.slide_id for hit in index.search(query, 5)]
    assert not {*before[:2]} & {*after}
    index.add(codes[-1:])
    assert index.search(query, 1)[0].slide_id == codes[-1].slide_id
    assert index.search(query, 1)[0].distance == 0
    assert index.search(Code("q", query.rows, "skin"), 3) == []


@each_kind
def test_what_was_saved_comes_back_and_can_grow(make: Any, kind: str, exact: Any, tmp_path: Path) -> None:
    codes = clustered(kind)
    index = make()
    index.add(codes[:-1])
    index.remove([codes[0].slide_id])
    index.save(tmp_path)
    loaded = make()
    loaded.load(tmp_path)
    assert loaded.ids == index.ids
    assert loaded.recalls == index.recalls
    assert [loaded.search(code, 5) for code in codes[:20]] == [index.search(code, 5) for code in codes[:20]]
    loaded.add(codes[-1:])
    assert loaded.search(codes[-1], 1)[0].slide_id == codes[-1].slide_id


@each_kind
@pytest.mark.parametrize(
    "name", ["header.json", "structure-0.bin", "slots-0.npy", "exact/header.json", "exact/ids.bin"]
)
def test_a_damaged_file_is_named(make: Any, kind: str, exact: Any, name: str, tmp_path: Path) -> None:
    index = make()
    index.add(clustered(kind, 200))
    index.save(tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 4
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DamagedError, match=name):
        make().load(tmp_path)


@each_kind
def test_a_small_archive_is_searched_exactly(make: Any, kind: str, exact: Any) -> None:
    codes = clustered(kind, 90)
    index, truth = make(), exact()
    index.add(codes)
    truth.add(codes)
    assert [index.search(code, 90) for code in codes] == [truth.search(code, 90) for code in codes]
    assert index.recalls == {}
    assert index.nbytes == truth.nbytes


def test_a_forest_that_misses_neighbours_says_so() -> None:
    index = annoy(n_trees=1, search_k=1)
    index.add(clustered("bits"))
    with pytest.warns(LowRecallWarning, match=r"annoy finds 0\.\d\d of the 10 nearest: raise search_k"):
        index.search(clustered("bits", 1)[0], 1)


def test_a_good_forest_is_silent() -> None:
    index = annoy()
    index.add(clustered("bits"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.search(clustered("bits", 1)[0], 1)


def test_effort_follows_the_target() -> None:
    codes, efforts = clustered("bits"), {}
    for target in (0.3, 0.999):
        index = ivf(target_recall=target)
        index.add(codes)
        index.build()
        efforts[target] = index.parts_[""].neighbours.settings["effort"]
        assert index.recalls[""] >= target
    assert efforts[0.999] > efforts[0.3]


@each_kind
def test_bytes_count_the_structure(make: Any, kind: str, exact: Any) -> None:
    index, truth = make(), exact()
    index.add(clustered(kind))
    truth.add(clustered(kind))
    index.build()
    assert index.nbytes > 1.5 * truth.nbytes


@each_kind
def test_sets_are_refused(make: Any, kind: str, exact: Any) -> None:
    two = Code("x", np.concatenate([code.rows for code in clustered(kind, 2)]))
    assert "one code per slide" in make().refuses(CodeSpec(kind, WIDTH, many=True))  # type: ignore[arg-type]
    with pytest.raises(SlideseekError, match="2 rows"):
        make().add([two])
    with pytest.raises(SlideseekError, match="2 rows"):
        make().search(two, 1)


def test_specs_and_codes_of_another_kind_are_refused() -> None:
    assert FaissBinary().refuses(CodeSpec("float", 8))
    assert Annoy().refuses(CodeSpec("sparse", 8))
    assert Annoy().refuses(CodeSpec("float", 8)) == Annoy().refuses(CodeSpec("bits", 8)) == ""
    with pytest.raises(SlideseekError, match="float32"):
        FaissBinary().add(clustered("float", 1))


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (Annoy, {"n_trees": 0}),
        (Annoy, {"search_k": -1}),
        (Annoy, {"exact_below": -1}),
        (FaissBinary, {"method": "flat"}),
        (FaissBinary, {"target_recall": 0.0}),
        (FaissBinary, {"lists": -1}),
        (FaissBinary, {"links": 1}),
    ],
)
def test_options_out_of_range_are_named(make: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))}: .*, not "):
        make(**options)


@each_kind
def test_a_few_added_slides_are_searched_exactly_without_building_anew(
    make: Any, kind: str, exact: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codes, built = clustered(kind), []
    index = make()
    real = type(index)._build

    def counted(*given):
        built.append(1)
        return real(*given)

    monkeypatch.setattr(type(index), "_build", counted)
    index.add(codes[:1_000])
    index.search(codes[0], 1)
    assert len(built) == 1
    index.add(codes[1_000:1_080])
    index.remove([codes[1_001].slide_id])
    for code in codes[1_002:1_080]:
        assert code.slide_id in [hit.slide_id for hit in index.search(code, 3) if hit.distance < 1e-6]
    mask = np.ones(len(index.ids), np.bool_)
    mask[list(index.ids).index(codes[1_050].slide_id)] = False
    assert codes[1_050].slide_id not in [hit.slide_id for hit in index.search(codes[1_050], 5, mask)]
    assert codes[1_001].slide_id not in [hit.slide_id for hit in index.search(codes[1_001], 5)]
    assert len(built) == 1, "the structure is the old one"
    index.save(tmp_path)
    assert len(built) == 2, "what is saved is whole"
    index.add(codes[1_080:1_300])
    index.search(codes[0], 1)
    assert len(built) == 3, "a tenth is too much to search exactly every time"


def test_a_forest_that_misses_neighbours_says_so_whenever_it_is_opened(tmp_path: Path) -> None:
    index = annoy(n_trees=1, search_k=0)
    index.add(clustered("bits"))
    with pytest.warns(LowRecallWarning):
        index.save(tmp_path)
    with pytest.warns(LowRecallWarning, match=r"annoy finds 0\.\d\d of the 10 nearest: raise search_k \(now 0\)"):
        annoy(n_trees=1, search_k=0).load(tmp_path)


@pytest.mark.parametrize(
    ("make", "option", "most"), [(annoy, "search_k", 10**6), (ivf, "effort", 4096), (hnsw, "effort", 4096)]
)
def test_the_effort_of_one_search(make: Any, option: str, most: int) -> None:
    """An option that can be given with a query changes what a copy finds; nothing is built again."""
    codes = clustered("bits")
    index, exact = make(), Hamming()
    for one in (index, exact):
        one.add(codes)
    index.search(codes[0], 10)
    parts, built = index.parts_, index.built_

    def found(options: dict[str, int]) -> float:
        copy = changed_copy(index, options)
        hits = [copy.search(code, 10) for code in codes[:60]]
        assert copy.parts_ is parts and copy.built_ == built
        true = [exact.search(code, 10) for code in codes[:60]]
        pairs = zip(hits, true, strict=True)
        return float(np.mean([sum(hit.distance <= right[-1].distance for hit in some) / 10 for some, right in pairs]))

    assert set(query_options(index)) >= {"exact_below", option}
    assert 1 >= found({option: most}) >= max(0.999, found({})) and found({}) >= found({option: 1})
    assert make is hnsw or found({option: 1}) < 1, "one node or list is not enough"
    assert found({"exact_below": COUNT}) == 1
