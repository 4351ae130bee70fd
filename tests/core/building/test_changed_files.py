"""A slide file that is replaced, cut off or touched after it was added is noticed, by whatever looks next."""

import os
import shutil
from pathlib import Path

import pytest

from slideseek.archive.archive import Archive
from slideseek.archive.file_changes import content_changed, identify, named
from slideseek.types import SlideRecord


@pytest.fixture
def slides(tiny_archive):
    """The folder of the slides of `tiny_archive`."""
    with Archive(tiny_archive) as archive:
        row = archive.catalog.slides.get("s0")
        assert row is not None
        return archive.slide_path(row.record).parent


def replace(slides, paint_tiny):
    paint_tiny(slides / "s1.png", 99, True, side=448)


def truncate(slides, paint_tiny):
    os.truncate(slides / "s1.png", 3000)


def notes_of(archive, slideseek, *query):
    return slideseek("search", *(query or ("s3",)), "-k", "9", "-a", archive, "--json").json["notes"]


def file_states(archive, slideseek):
    return {slide["id"]: slide["file"] for slide in slideseek("status", "-a", archive, "--json").json["slides"]}


@pytest.mark.parametrize("change", [replace, truncate])
def test_another_picture_is_noticed_by_search_status_and_explain(tiny_archive, slides, paint_tiny, slideseek, change):
    assert not notes_of(tiny_archive, slideseek)
    change(slides, paint_tiny)
    for query in ("s3", "s1"):  # as a hit, and as the query
        (note,) = notes_of(tiny_archive, slideseek, query)
        assert note.startswith("the file of slide 's1' has another size or date") and "slideseek build" in note
    assert [name for name, state in file_states(tiny_archive, slideseek).items() if state != "same"] == ["s1"]
    assert "changed slide 's1'" in slideseek("status", "-a", tiny_archive).out
    told = slideseek("explain", "s3", "s1", "-a", tiny_archive)
    assert told.code == 0 and "was replaced" in told.err and "former content" in told.err
    for option, name in (("-o", "m.png"), ("--heatmap", "h.png"), ("--geojson", "m.geojson")):
        refused = slideseek("explain", "s3", "s1", option, tiny_archive / name, "-a", tiny_archive)
        assert refused.code == 1 and "would be drawn on another picture" in refused.err
    assert not list(tiny_archive.glob("*.png")) and not list(tiny_archive.glob("*.geojson"))


def test_a_replaced_slide_is_computed_again(tiny_archive, slides, paint_tiny, slideseek):
    before = slideseek("explain", "s3", "s1", "-a", tiny_archive, "--json").json
    replace(slides, paint_tiny)
    done = slideseek("build", "-a", tiny_archive, "--json")
    assert done.code == 0 and done.json["slides"] == {"ok": 1, "skipped": 7, "failed": 0}
    assert "the file of slide 's1' has been replaced" in done.err
    assert not notes_of(tiny_archive, slideseek) and set(file_states(tiny_archive, slideseek).values()) == {"same"}
    after = slideseek("explain", "s3", "s1", "-o", tiny_archive / "m.png", "-a", tiny_archive, "--json").json
    assert (tiny_archive / "m.png").is_file() and after["evidence"] != before["evidence"]


def test_a_slide_that_was_cut_off_fails_and_is_no_longer_found(tiny_archive, slides, slideseek):
    whole = (slides / "s1.png").read_bytes()
    os.truncate(slides / "s1.png", 3000)
    done = slideseek("build", "-a", tiny_archive, "--json")
    assert done.code == 3 and list(done.json["failures"]) == ["s1"]
    hits = slideseek("search", "s3", "-k", "9", "-a", tiny_archive, "--json").json["hits"]
    assert len(hits) == 6 and "s1" not in [hit["slide"]["id"] for hit in hits]
    (slides / "s1.png").write_bytes(whole)
    again = slideseek("build", "-a", tiny_archive, "--json")
    assert again.code == 0 and again.json["slides"] == {"ok": 1, "skipped": 7, "failed": 0}


def test_a_touched_slide_keeps_its_results(tiny_archive, slides, slideseek):
    os.utime(slides / "s1.png", ns=(1, 1))
    assert "has another size or date" in notes_of(tiny_archive, slideseek)[0]
    assert slideseek("explain", "s3", "s1", "-o", tiny_archive / "m.png", "-a", tiny_archive).code == 0
    done = slideseek("build", "-a", tiny_archive, "--json")
    assert done.json["slides"] == {"ok": 0, "skipped": 8, "failed": 0}
    assert "'s1' has another date than when it was added, but the same content" in done.err
    assert not notes_of(tiny_archive, slideseek)
    assert "another date" not in slideseek("build", "-a", tiny_archive).err


def test_verify_reads_the_content_of_files_that_look_the_same(tiny_archive, slides, slideseek):
    """The same size and date, and other pixels: only the content tells."""
    file = slides / "s1.png"
    stat = file.stat()
    other = bytearray((slides / "s3.png").read_bytes())
    file.write_bytes(bytes(other[: stat.st_size]).ljust(stat.st_size, b"\0"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "replaced" not in slideseek("build", "-a", tiny_archive).err
    assert "the file of slide 's1' has been replaced" in slideseek("build", "--verify", "-a", tiny_archive).err


def test_a_missing_file_costs_no_result(tiny_archive, slides, slideseek):
    (slides / "s1.png").unlink()
    assert slideseek("build", "-a", tiny_archive, "--json").json["slides"] == {"ok": 0, "skipped": 8, "failed": 0}
    assert not notes_of(tiny_archive, slideseek) and file_states(tiny_archive, slideseek)["s1"] == "missing"
    assert "missing slide 's1'" in slideseek("status", "-a", tiny_archive).out


def test_every_file_of_a_slide_counts(tmp_path):
    for name in ("a.vms", "a_map.jpg", "a_1.jpg"):
        (tmp_path / name).write_text(name)
    row = identify(SlideRecord("a", "a.vms"), tmp_path / "a.vms")
    assert {part[0] for part in row.parts} == {"a_map.jpg", "a_1.jpg"} and row.file_state(tmp_path) == "same"
    os.utime(tmp_path / "a_1.jpg", ns=(1, 1))
    assert row.file_state(tmp_path) == "changed"
    (tmp_path / "a_1.jpg").unlink()
    assert row.file_state(tmp_path) == "missing"


def test_copies_of_two_patients_are_named(tiny_archive, slides, slideseek):
    shutil.copy(slides / "s0.png", slides / "copy.png")
    manifest = slides / "more.csv"
    manifest.write_text("slide_id,filename,case_id,mpp\ncopy,copy.png,p9,1.0\n")
    assert slideseek("add", slides, "--manifest", manifest, "-a", tiny_archive).code == 0
    status = slideseek("status", "-a", tiny_archive)
    assert "copies  copy, s0 have the same content of the patients p0, p9: one of them is wrong" in status.out
    assert slideseek("status", "-a", tiny_archive, "--json").json["copies"] == [["copy", "s0"]]


def test_slides_are_named_a_few_at_a_time():
    assert named(["a"]) == "slide 'a'" and named(["a", "b", "c"], 2) == "3 slides ('a', 'b' and 1 more)"


def test_what_cannot_be_read_is_another_picture(tiny_archive, slides):
    (slides / "s1.png").write_bytes(b"")
    with Archive(tiny_archive) as archive:
        emptied, whole = (archive.catalog.slides.get(name) for name in ("s1", "s2"))
        assert emptied is not None and content_changed(archive, emptied)
        assert whole is not None and not content_changed(archive, whole)
    assert Path(slides / "s1.png").stat().st_size == 0
