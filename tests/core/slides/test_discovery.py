"""Finding slides on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slideseek.errors import SlideError
from slideseek.slides.discovery import find_slides
from slideseek.slides.file_formats import slide_files


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def names(found: list[Path], root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in found]


def test_files_are_taken_as_given(tmp_path: Path) -> None:
    odd, tif = tmp_path / "b.weird", tmp_path / "a.tif"
    touch(odd, tif)
    assert find_slides([odd, tif]) == [odd, tif]


def test_folders_are_walked_in_sorted_order(tmp_path: Path) -> None:
    wanted = ["b.svs", "sub/a.TIF", "sub/deep/c.mrxs", "z/1.ndpi", "z/2.jpeg"]
    touch(*(tmp_path / name for name in wanted))
    touch(tmp_path / "notes.txt", tmp_path / "sub/table.csv", tmp_path / "noending")
    assert names(find_slides([tmp_path]), tmp_path) == wanted


def test_every_known_ending_is_found(tmp_path: Path) -> None:
    endings = ["svs", "tif", "tiff", "ndpi", "scn", "mrxs", "svslide", "bif", "czi", "png", "jpg", "jpeg"]
    touch(*(tmp_path / f"slide-{ending}.{ending}" for ending in endings))
    assert len(find_slides([tmp_path])) == len(endings)


def test_hidden_and_temporary_files_are_passed_over(tmp_path: Path) -> None:
    for name in ("._a.svs", ".hidden.svs", "~a.svs", "a.svs.part", "b.svs~", ".git/x.svs", "a.tmp", "#a.svs"):
        touch(tmp_path / name)
    touch(tmp_path / "kept.svs")
    assert names(find_slides([tmp_path]), tmp_path) == ["kept.svs"]


def test_no_slide_twice(tmp_path: Path) -> None:
    slide = tmp_path / "a.svs"
    touch(slide)
    (tmp_path / "link.svs").symlink_to(slide)
    assert find_slides([slide, tmp_path, slide]) == [slide]


def test_loops_of_links_end(tmp_path: Path) -> None:
    touch(tmp_path / "sub" / "a.svs")
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "sub")
    assert len(find_slides([tmp_path])) == 1


def test_links_to_folders_elsewhere_are_followed(tmp_path: Path) -> None:
    touch(tmp_path / "store" / "a.svs")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "slides").symlink_to(tmp_path / "store")
    assert names(find_slides([tmp_path / "work"]), tmp_path) == ["work/slides/a.svs"]


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(SlideError, match="does not exist"):
        find_slides([tmp_path / "nowhere"])


def test_the_folder_of_a_mirax_slide_holds_no_slides(tmp_path: Path) -> None:
    touch(tmp_path / "case.mrxs", tmp_path / "case" / "Data0000.dat", tmp_path / "case" / "thumb.jpg")
    assert names(find_slides([tmp_path]), tmp_path) == ["case.mrxs"]
    assert names(slide_files(tmp_path / "case.mrxs"), tmp_path) == ["case.mrxs", "case/Data0000.dat", "case/thumb.jpg"]


def test_the_images_of_a_hamamatsu_slide_are_no_slides(tmp_path: Path) -> None:
    touch(*(tmp_path / name for name in ("case.vms", "case.jpg", "case(1,0).jpg", "case_macro.jpg", "other.jpg")))
    assert names(find_slides([tmp_path]), tmp_path) == ["case.vms", "other.jpg"]
    assert len(slide_files(tmp_path / "case.vms")) == 4


def test_a_dicom_series_is_one_slide(shared_data: Path) -> None:
    folder = shared_data / "slides-formats" / "cmu-dicom"
    files = sorted(folder.glob("*.dcm"))
    assert len(files) == 4
    assert find_slides([folder]) == [files[0]]
    assert slide_files(files[2]) == files


def test_two_dicom_series_and_a_stray_file_in_one_folder(shared_data: Path, tmp_path: Path) -> None:
    for path in (shared_data / "slides-formats" / "cmu-dicom").glob("*.dcm"):
        shutil.copy(path, tmp_path / f"b-{path.name}")
        content = path.read_bytes()
        # The same series under another number of the same length.
        assert b"21577574112843936045397065457192622591" in content
        other = content.replace(b"21577574112843936045397065457192622591", b"11577574112843936045397065457192622591")
        (tmp_path / f"a-{path.name}").write_bytes(other)
    (tmp_path / "c.dcm").write_bytes(b"not dicom")
    found = [path.name for path in find_slides([tmp_path])]
    assert [name[0] for name in found] == ["a", "b", "c"]
    assert len(slide_files(tmp_path / found[0])) == 4


def test_all_shared_slides_are_found(shared_data: Path) -> None:
    assert len(find_slides([shared_data / "slides-atlas"])) == 11
    assert len(find_slides([shared_data / "slides-formats"])) == 8


def test_pictures_of_slides_are_no_slides(tmp_path: Path) -> None:
    touch(tmp_path / "a.png", tmp_path / "a.inspect.png")
    assert names(find_slides([tmp_path]), tmp_path) == ["a.png"]
    assert find_slides([tmp_path / "a.inspect.png"]) == [tmp_path / "a.inspect.png"], "named outright it is one"
