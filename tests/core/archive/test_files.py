"""Atomic writes and safe names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slideseek.archive.files import clear_temporary, replacing, replacing_folder, safe_name, write_text


def test_replacing_keeps_the_old_content_when_the_block_fails(tmp_path):
    path = tmp_path / "x.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_replacing_swaps_in_one_step(tmp_path):
    path = tmp_path / "deep" / "x.txt"
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"


def test_replacing_folder(tmp_path):
    target = tmp_path / "m" / "abc"
    with replacing_folder(target) as temporary:
        (temporary / "a.json").write_text("1")
    with replacing_folder(target) as temporary:
        (temporary / "b.json").write_text("2")
    assert [p.name for p in target.iterdir()] == ["b.json"]
    with pytest.raises(RuntimeError), replacing_folder(target) as temporary:
        raise RuntimeError
    assert [p.name for p in target.parent.iterdir()] == ["abc"]


def test_left_over_temporary_files_are_cleared(tmp_path):
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / ".x.h5.tmp-123-abcd0123").write_text("half")
    (tmp_path / ".catalog.tmp-1-abcd0123").mkdir()
    kept = [tmp_path / "features" / "x.h5", tmp_path / ".my.tmp-backup", tmp_path / "notes" / ".a.tmp-1-abcd0123"]
    (tmp_path / "notes").mkdir()
    for path in kept:
        path.write_text("the user's")
    assert clear_temporary(tmp_path, ["features", "models"]) == 2
    assert all(path.exists() for path in kept)


@given(st.lists(st.text(min_size=1, max_size=300), min_size=2, max_size=2, unique=True))
def test_safe_names_are_valid_and_different(ids):
    names = [safe_name(i) for i in ids]
    assert names[0] != names[1]
    for name in names:
        assert name and "/" not in name and "\0" not in name and "\\" not in name
        assert not name.startswith(".") and len(name.encode()) <= 200


def test_safe_names_stay_readable():
    assert safe_name("TCGA-02-0001-01Z-00-DX1") == "TCGA-02-0001-01Z-00-DX1"
    assert safe_name("../../etc/passwd").startswith("..%2F") is False
