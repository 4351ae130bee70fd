"""Digests of data, bytes and files: one spelling, and SHA-256 as everyone computes it."""

from slideseek.digests import canonical_json, digest, digest_bytes, sha256_file, sha256_files

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_plain_data_has_one_spelling():
    assert canonical_json({"b": [1, 2.5], "a": "ü"}) == '{"a":"ü","b":[1,2.5]}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}) == digest_bytes(b'{"a":2,"b":1}')


def test_parts_are_laid_end_to_end():
    assert digest_bytes() == EMPTY
    assert digest_bytes(b"sli", memoryview(b"de")) == digest_bytes(b"slide")


def test_sha256(tmp_path):
    (tmp_path / "e").write_bytes(b"")
    assert sha256_file(tmp_path / "e") == EMPTY


def test_files_of_a_folder_are_named_by_their_path_in_it(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt").write_bytes(b"slide")
    (tmp_path / "a.txt").write_bytes(b"")
    assert sha256_files(tmp_path) == {"a.txt": EMPTY, "b/c.txt": digest_bytes(b"slide")}
