"""Fingerprints: the content decides, the path does not."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from slideseek.errors import SlideError
from slideseek.slides import content_fingerprint
from slideseek.slides.content_fingerprint import BLOCK_BYTES, BLOCKS, fingerprint


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_fingerprint, "WHOLE_BYTES", 10_000)
    monkeypatch.setattr(content_fingerprint, "BLOCK_BYTES", 100)
    monkeypatch.setattr(content_fingerprint, "BLOCKS", 8)


def test_a_small_file_has_its_sha256(tmp_path: Path) -> None:
    path = tmp_path / "a.svs"
    path.write_bytes(b"slide" * 1000)
    assert fingerprint(path) == "sha256:" + hashlib.sha256(b"slide" * 1000).hexdigest()


def test_the_path_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "a.svs"
    path.write_bytes(b"slide" * 1000)
    (tmp_path / "sub").mkdir()
    moved = shutil.copy(path, tmp_path / "sub" / "b.tif")
    assert fingerprint(path) == fingerprint(Path(moved))


def test_the_documented_numbers() -> None:
    assert (content_fingerprint.WHOLE_BYTES, BLOCK_BYTES, BLOCKS) == (64 * 1024**2, 256 * 1024, 64)


@pytest.mark.usefixtures("small_limits")
def test_a_large_file_is_sampled(tmp_path: Path) -> None:
    content = bytearray(range(256)) * 80
    size = len(content)
    path = tmp_path / "a.svs"
    path.write_bytes(content)
    blocks = [content[start : start + 100] for start in [(size - 100) * number // 7 for number in range(8)]]
    assert blocks[0] == content[:100]
    assert blocks[-1] == content[-100:]
    expected = hashlib.sha256(f"{size}\n".encode() + b"".join(blocks)).hexdigest()
    assert fingerprint(path) == f"sampled-sha256:{expected}"


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("place", [0, 99, -1, -100])
def test_first_and_last_bytes_of_a_large_file_count(place: int, tmp_path: Path) -> None:
    content = bytearray(20_000)
    path = tmp_path / "a.svs"
    path.write_bytes(content)
    before = fingerprint(path)
    content[place] = 1
    path.write_bytes(content)
    assert fingerprint(path) != before


@pytest.mark.usefixtures("small_limits")
def test_the_size_of_a_large_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.svs"
    path.write_bytes(bytes(20_000))
    before = fingerprint(path)
    path.write_bytes(bytes(20_001))
    assert fingerprint(path) != before


def test_a_mirax_slide_is_its_folder_too(tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case.mrxs").write_bytes(b"thumbnail")
    (tmp_path / "case" / "Data0000.dat").write_bytes(b"pixels")
    before = fingerprint(tmp_path / "case.mrxs")
    shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy")
    assert fingerprint(tmp_path.parent / f"{tmp_path.name}-copy" / "case.mrxs") == before
    (tmp_path / "case" / "Data0000.dat").write_bytes(b"other pixels")
    assert fingerprint(tmp_path / "case.mrxs") != before


def test_moving_bytes_between_files_is_seen(tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case.mrxs").write_bytes(b"t")
    (tmp_path / "case" / "a").write_bytes(b"12")
    (tmp_path / "case" / "b").write_bytes(b"34")
    before = fingerprint(tmp_path / "case.mrxs")
    (tmp_path / "case" / "a").write_bytes(b"123")
    (tmp_path / "case" / "b").write_bytes(b"4")
    assert fingerprint(tmp_path / "case.mrxs") != before


def test_a_dicom_series_has_one_identity(shared_data: Path, tmp_path: Path) -> None:
    files = sorted((shared_data / "slides-formats" / "cmu-dicom").glob("*.dcm"))
    prints = {fingerprint(path) for path in files}
    assert len(prints) == 1
    for path in files:
        shutil.copy(path, tmp_path)
    assert fingerprint(tmp_path / files[1].name) in prints
    (tmp_path / files[0].name).unlink()
    assert fingerprint(tmp_path / files[1].name) not in prints


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(SlideError, match="does not exist"):
        fingerprint(tmp_path / "nowhere.svs")
    with pytest.raises(SlideError, match="is a folder"):
        fingerprint(tmp_path)
    (tmp_path / "empty.svs").touch()
    with pytest.raises(SlideError, match="empty"):
        fingerprint(tmp_path / "empty.svs")


def test_a_file_that_fails_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.svs"
    path.write_bytes(b"content")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(content_fingerprint, "slide_files", fail)
    with pytest.raises(SlideError, match="Input/output error"):
        fingerprint(path)
