"""What all stored indexes share: adding, removing, masks over ids, and files that survive or say they are damaged."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.errors import DamagedError, SlideseekError
from slideseek.interfaces import BatchIndex, Index, MeasuresSets
from slideseek.types import Code, CodeSpec
from slideseek_components.indexes import folder as files
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming
from slideseek_components.indexes.sparse import Sparse

BITS, FLOATS, SETS = CodeSpec("bits", 12), CodeSpec("sparse", 5), CodeSpec("bits", 12, many=True)
KINDS = [(Hamming, BITS), (Hamming, SETS), (Cosine, CodeSpec("float", 5, many=True)), (Sparse, FLOATS)]


def bits(slide_id: str, *values: int, space: str = "") -> Code:
    return Code(slide_id, np.array([[value] for value in values], np.uint8), space)


@pytest.mark.parametrize("schedules", [10, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", range(4))
def test_random_schedules_keep_ids_order_and_answers(
    number: int, schedules: int, oracle: Any, random_code: Callable[..., Code], tmp_path: Path
) -> None:
    make, spec = KINDS[number]
    rng = np.random.default_rng(number)
    for schedule in range(schedules):
        index, held, serial = make(), dict[str, Code](), 0
        for step in range(int(rng.integers(3, 12))):
            action = rng.choice(["add", "add", "remove", "compact", "reload"])
            if action == "add":
                fresh = [
                    random_code(rng, spec, f"s{serial + n}", str(rng.choice(["", "a"]))) for n in range(rng.integers(5))
                ]
                serial += len(fresh)
                index.add(fresh)
                held.update((code.slide_id, code) for code in fresh)
            elif action == "remove":
                gone = [slide_id for slide_id in held if rng.random() < 0.3]
                index.remove(gone)
                held = {slide_id: code for slide_id, code in held.items() if slide_id not in gone}
            elif action == "compact":
                index.store_.compact()
            else:
                place = tmp_path / f"{schedule}-{step}"
                place.mkdir()
                index.save(place)
                index = make()
                index.load(place)
            assert list(index.ids) == list(held)
            query, among = random_code(rng, spec, "q"), rng.random(len(held)) < 0.8
            assert index.search(query, 4, among) == oracle().search(list(held.values()), query, 4, among)


@pytest.mark.parametrize(("make", "spec"), KINDS)
def test_the_protocols_are_honoured(make: Any, spec: CodeSpec) -> None:
    assert isinstance(make(), Index)
    assert isinstance(make(), BatchIndex)
    assert isinstance(make(), MeasuresSets) == (make is not Sparse)
    assert make().refuses(spec) == ""
    assert make().nbytes == 0
    assert make().ids == ()


def test_the_digest_of_a_header_with_letters_beyond_ascii_stays_what_it_was(tmp_path: Path) -> None:
    index = Hamming()
    index.add([bits("é", 1, space="Nièrë")])
    index.save(tmp_path)
    header = json.loads((tmp_path / files.HEADER).read_bytes())
    assert header["header_sha256"] == "ddacd90ed06aa243cbf0b2b37c2c3565fa0582f899719ddeae4fa2320a49a2cd"
    index.load(tmp_path)
    assert index.search(bits("q", 1, space="Nièrë"), 1)[0].slide_id == "é"


def test_a_known_id_is_refused_and_nothing_is_added() -> None:
    index = Hamming()
    index.add([bits("a", 1)])
    with pytest.raises(SlideseekError, match="already in the index: 'a'"):
        index.add([bits("b", 1), bits("a", 2)])
    with pytest.raises(SlideseekError, match="given twice: 'c'"):
        index.add([bits("c", 1), bits("c", 2)])
    assert index.ids == ("a",)


def test_an_unknown_id_is_refused_and_nothing_is_removed() -> None:
    index = Hamming()
    index.add([bits("a", 1), bits("b", 1)])
    with pytest.raises(SlideseekError, match="not in the index: 'x'"):
        index.remove(["a", "x"])
    assert index.ids == ("a", "b")


def test_a_removed_id_can_be_added_again_with_another_code() -> None:
    index = Hamming()
    index.add([bits(name, 0) for name in "abcdefgh"])
    index.remove(["a"])
    index.add([bits("a", 255)])
    assert index.ids == (*"bcdefgh", "a")
    assert index.search(bits("q", 255), 1)[0].slide_id == "a"


def test_an_emptied_index_takes_codes_of_another_width() -> None:
    index = Hamming()
    index.add([bits("a", 1)])
    index.remove(["a"])
    index.add([Code("b", np.zeros((1, 9), np.uint8))])
    assert index.ids == ("b",)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (Code("x", np.zeros((1, 2), np.uint8)), "2 columns"),
        (Code("x", np.zeros((0, 1), np.uint8)), "no rows"),
        (Code("x", np.zeros((1, 1), np.float32)), "float32"),
    ],
)
def test_a_code_that_does_not_fit_is_refused_by_add_and_search(code: Code, words: str) -> None:
    index = Hamming()
    index.add([bits("a", 1)])
    with pytest.raises(SlideseekError, match=words):
        index.add([bits("b", 1), code])
    with pytest.raises(SlideseekError, match=words):
        index.search(code, 1)
    assert index.ids == ("a",)


@pytest.mark.parametrize("make", [Cosine, Sparse])
def test_values_that_are_not_finite_are_refused(make: Any) -> None:
    with pytest.raises(SlideseekError, match="not finite"):
        make().add([Code("a", np.array([[1, np.nan]], np.float32))])


def test_k_and_mask_are_checked() -> None:
    index = Hamming()
    index.add([bits("a", 1), bits("b", 1)])
    with pytest.raises(ValueError, match="k: at least 1, not 0"):
        index.search(bits("q", 1), 0)
    with pytest.raises(ValueError, match="among must be bool"):
        index.search(bits("q", 1), 1, np.ones(3, np.bool_))
    with pytest.raises(ValueError, match="among must be bool"):
        index.search(bits("q", 1), 1, np.ones(2, np.int64))


def test_spaces_are_never_mixed() -> None:
    index = Hamming()
    index.add([bits("a", 1, space="liver"), bits("b", 1), bits("c", 1, space="lung")])
    assert [hit.slide_id for hit in index.search(bits("q", 1, space="lung"), 9)] == ["c"]
    assert [hit.slide_id for hit in index.search(bits("q", 1), 9)] == ["b"]
    assert index.search(bits("q", 1, space="skin"), 9) == []


def test_nbytes_counts_rows_until_they_are_compacted_away() -> None:
    index = Hamming()
    index.add([bits(f"s{n}", *range(n + 1)) for n in range(8)])
    assert index.nbytes == 36 * 8  # one 64-bit word a row
    index.remove(["s0"])
    assert index.nbytes == 36 * 8
    index.remove(["s6", "s7"])
    assert index.nbytes == 20 * 8


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    index = Hamming()
    index.add([bits("a", 1, 2), bits("é ✓", 3), bits("c", 4, space="liver")])
    place = tmp_path / "saved"
    place.mkdir()
    index.save(place)
    return place


def test_what_was_saved_comes_back_mapped(saved: Path) -> None:
    index = Hamming()
    index.load(saved)
    assert index.ids == ("a", "é ✓", "c")
    assert index.search(bits("q", 3), 1)[0].slide_id == "é ✓"
    root: Any = index.store_.segments[0].fields["words"]
    while isinstance(root, np.ndarray):
        root = root.base
    assert isinstance(root, mmap)


def test_adding_to_a_loaded_index_leaves_its_files_alone_and_links_them_on_save(saved: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    index = Hamming(direction="target")
    index.load(saved)
    index.add([bits("d", 9)])
    again = tmp_path / "again"
    again.mkdir()
    index.save(again)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert os.stat(again / "words-0.npy").st_ino == os.stat(saved / "words-0.npy").st_ino
    other = Hamming()
    other.load(again)
    assert other.ids == ("a", "é ✓", "c", "d")


def test_a_file_that_took_the_place_of_a_mapped_one_is_not_mistaken_for_it(saved: Path, tmp_path: Path) -> None:
    index = Hamming()
    index.load(saved)
    (saved / "words-0.npy").unlink()
    np.save(saved / "words-0.npy", np.full((4, 1), 77, np.uint64))
    again = tmp_path / "again"
    again.mkdir()
    index.save(again)
    assert np.load(again / "words-0.npy").ravel().tolist() == [1, 2, 3, 4]


def test_a_saved_index_holds_no_trace_of_a_removed_slide(saved: Path, tmp_path: Path) -> None:
    index = Hamming()
    index.load(saved)
    index.add([bits(f"more{n}", n) for n in range(9)])
    index.remove(["a"])
    again = tmp_path / "again"
    again.mkdir()
    index.save(again)
    assert (again / "ids.bin").read_bytes().startswith("é ✓c".encode())
    assert np.load(again / "words-0.npy").shape == (2 + 9, 1)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 8)


def foreign(path: Path) -> None:
    path.write_bytes(b"something else")


SMALL_FILES = ["header.json", "ids.bin", "slides.npy"]
HARMS = [(name, harm) for name in [*SMALL_FILES, "words-0.npy"] for harm in (truncate, lengthen, foreign, Path.unlink)]


@pytest.mark.parametrize(("name", "harm"), [*HARMS, *((name, flip) for name in SMALL_FILES)])
def test_a_damaged_file_is_named_with_the_fix(saved: Path, name: str, harm: Callable[[Path], None]) -> None:
    harm(saved / name)
    with pytest.raises(DamagedError, match=name) as caught:
        Hamming().load(saved)
    assert "rebuild" in caught.value.fix


def rewrite(header: Path, **changed: Any) -> None:
    content = json.loads(header.read_text()) | changed
    content.pop("header_sha256")
    content["header_sha256"] = files._header_sha256(content)
    header.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": 99}, "format version 99"),
        ({"format": "other"}, "not the header"),
        ({"index": "cosine"}, "written by index 'cosine'"),
    ],
)
def test_a_header_of_another_kind_is_refused(saved: Path, changed: dict[str, Any], words: str) -> None:
    rewrite(saved / "header.json", **changed)
    with pytest.raises(DamagedError, match=words):
        Hamming().load(saved)


def test_a_failed_load_changes_nothing(saved: Path) -> None:
    (saved / "words-0.npy").unlink()
    index = Hamming()
    index.add([bits("z", 7)])
    with pytest.raises(DamagedError):
        index.load(saved)
    assert index.ids == ("z",)
    assert index.search(bits("q", 7), 1)[0].slide_id == "z"


def test_a_large_index_opens_and_grows_without_being_read(tmp_path: Path) -> None:
    index, rng = Hamming(), np.random.default_rng(0)
    index.add(
        [Code(f"slide-{n:06d}", row[None]) for n, row in enumerate(rng.integers(0, 256, (100_000, 63), np.uint8))]
    )
    index.save(tmp_path)
    opened = Hamming()
    began = time.process_time()
    opened.load(tmp_path)
    loaded = time.process_time()
    opened.add([Code("new", np.zeros((1, 63), np.uint8))])
    grown = time.process_time()
    assert loaded - began < 0.5
    assert grown - loaded < 0.5
    assert opened.search(Code("q", np.zeros((1, 63), np.uint8)), 1)[0].slide_id == "new"
