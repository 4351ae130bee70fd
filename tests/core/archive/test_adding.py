"""Who a slide is: by content and name, never by the folder it lies in."""

import json
import shutil

import pytest

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import unpack_patches


@pytest.fixture
def archive(tmp_path, tiny_config, slideseek):
    folder = tmp_path / "archive"
    assert slideseek("init", folder, "--config", tiny_config).code == 0
    return folder


def slides(folder):
    with Archive(folder) as archive:
        return {row.id: row for row in archive.catalog.slides}


def test_equal_stems_in_two_folders_do_not_collide(archive, tmp_path, slideseek, paint_tiny):
    for number, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        paint_tiny(tmp_path / name / "x.png", number, coarse=True)
    done = slideseek("add", tmp_path / "one", tmp_path / "two", "-a", archive, "--mpp", "1")
    assert done.code == 0
    assert len(slides(archive)) == 2 and all(i.startswith("x~") for i in slides(archive))


def test_equal_stems_added_one_after_the_other(archive, tmp_path, slideseek, paint_tiny):
    for number, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        paint_tiny(tmp_path / name / "x.png", number, coarse=True)
        slideseek("add", tmp_path / name, "-a", archive, "--mpp", "1")
    ids = sorted(slides(archive))
    assert ids[0] == "x" and ids[1].startswith("x~")


def test_a_moved_file_is_the_same_slide(archive, tmp_path, slideseek, paint_tiny):
    (tmp_path / "old").mkdir()
    paint_tiny(tmp_path / "old" / "x.png", 1, coarse=True)
    slideseek("add", tmp_path / "old", "-a", archive, "--mpp", "1")
    slideseek("build", "-a", archive)
    shutil.move(tmp_path / "old", tmp_path / "new")
    (tmp_path / "new" / "x.png").rename(tmp_path / "new" / "renamed.png")
    done = slideseek("add", tmp_path / "new", "-a", archive, "--json").json
    assert done["updated"] == ["x"] and not done["added"]
    assert slides(archive)["x"].record.path.endswith("new/renamed.png")
    assert slideseek("build", "-a", archive, "--json").json["slides"]["skipped"] == 1, "nothing is computed again"


def test_copies_are_not_added_twice(archive, tmp_path, slideseek, paint_tiny):
    (tmp_path / "in").mkdir()
    paint_tiny(tmp_path / "in" / "a.png", 1, coarse=True)
    shutil.copy(tmp_path / "in" / "a.png", tmp_path / "in" / "b.png")
    done = slideseek("add", tmp_path / "in", "-a", archive, "--mpp", "1")
    assert "1 added" in done.out and "same content" in done.err
    shutil.copy(tmp_path / "in" / "a.png", tmp_path / "c.png")
    done = slideseek("add", tmp_path / "c.png", "-a", archive, "--mpp", "1")
    assert "0 added" in done.out and "is a copy of slide 'a'" in done.err


def test_a_manifest_may_name_copies_and_they_share_results(archive, tmp_path, slideseek, paint_tiny):
    (tmp_path / "in").mkdir()
    paint_tiny(tmp_path / "in" / "a.png", 1, coarse=True)
    shutil.copy(tmp_path / "in" / "a.png", tmp_path / "in" / "b.png")
    manifest = tmp_path / "in" / "m.csv"
    manifest.write_text("slide_id,case_id,mpp\na,p,1\nb,q,1\n")
    done = slideseek("add", tmp_path / "in", "--manifest", manifest, "-a", archive)
    assert done.code == 0 and "slide 'b' has the same content as slide 'a'" in done.err
    assert slideseek("build", "-a", archive).code == 0
    hits = slideseek("search", "a", "-a", archive, "--json").json["hits"]
    assert [(h["slide_id"], h["distance"]) for h in hits] == [("b", 0.0)]


def test_changed_content_is_computed_again(archive, tmp_path, slideseek, paint_tiny):
    paint_tiny(tmp_path / "a.png", 1, coarse=True)
    paint_tiny(tmp_path / "b.png", 2, coarse=True)
    slideseek("add", tmp_path / "a.png", tmp_path / "b.png", "-a", archive, "--mpp", "1")
    slideseek("build", "-a", archive)
    before = slideseek("search", "b", "-a", archive, "--json").json["hits"][0]["distance"]
    paint_tiny(tmp_path / "a.png", 3, coarse=False)
    assert slideseek("add", tmp_path / "a.png", "-a", archive, "--json").json["updated"] == ["a"]
    assert slideseek("build", "-a", archive, "--json").json["slides"] == {"ok": 1, "skipped": 1, "failed": 0}
    assert slideseek("search", "b", "-a", archive, "--json").json["hits"][0]["distance"] != before


def test_adding_again_changes_nothing(archive, tiny_slides, slideseek):
    arguments = ("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", archive, "--json")
    assert len(slideseek(*arguments).json["added"]) == 8
    before = slides(archive)
    assert len(slideseek(*arguments).json["unchanged"]) == 8
    assert slides(archive) == before


def test_slides_inside_the_archive_move_with_it(tmp_path, tiny_config, slideseek, paint_tiny):
    slideseek("init", tmp_path / "one", "--config", tiny_config)
    paint_tiny(tmp_path / "one" / "a.png", 1, coarse=True)
    slideseek("add", tmp_path / "one" / "a.png", "-a", tmp_path / "one", "--mpp", "1")
    (tmp_path / "one").rename(tmp_path / "two")
    assert slideseek("build", "-a", tmp_path / "two").code == 0


def test_file_names_with_a_suffix_match_their_id(archive, tmp_path, slideseek, paint_tiny):
    (tmp_path / "in").mkdir()
    paint_tiny(tmp_path / "in" / "TCGA-02-0001-DX1.5a1b-uuid.png", 1, coarse=True)
    manifest = tmp_path / "m.csv"
    manifest.write_text("slide_id,case_id,mpp\nTCGA-02-0001-DX1,TCGA-02-0001,1\n")
    assert slideseek("add", tmp_path / "in", "--manifest", manifest, "-a", archive).code == 0
    assert list(slides(archive)) == ["TCGA-02-0001-DX1"]


def test_ambiguous_and_unnamed_files_are_said(archive, tmp_path, slideseek, paint_tiny):
    for number, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        paint_tiny(tmp_path / name / "x.png", number, coarse=True)
    paint_tiny(tmp_path / "two" / "y.png", 9, coarse=True)
    manifest = tmp_path / "m.csv"
    manifest.write_text("slide_id,case_id\nx,p\n")
    done = slideseek("add", tmp_path / "one", tmp_path / "two", "--manifest", manifest, "-a", archive)
    assert done.code == 3 and "2 files match" in done.err and "not named in m.csv" in done.err
    manifest.write_text("slide_id,path,case_id\nx,two/x.png,p\n")
    assert slideseek("add", "--manifest", manifest, "-a", archive).code == 0
    assert slides(archive)["x"].record.path.endswith("two/x.png")


def outline(path, x0, y0, x1, y1):
    ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
    path.write_text(json.dumps({"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}}))


def patch_places(folder):
    with Archive(folder) as archive:
        (record, *_) = archive.catalog.stages("select")
        return unpack_patches(archive.catalog.payload(record.key), record.slide_id).xy


def test_an_outline_says_where_the_tissue_is_and_a_changed_one_is_selected_from_anew(
    archive, tmp_path, slideseek, paint_tiny
):
    paint_tiny(tmp_path / "a.png", 1, coarse=True)
    manifest = tmp_path / "m.csv"
    manifest.write_text("slide_id,case_id,mpp,contours\na,p,1,a.geojson\n")
    missing = slideseek("add", tmp_path / "a.png", "--manifest", manifest, "-a", archive)
    assert missing.code == 3 and "a.geojson" in missing.err
    outline(tmp_path / "a.geojson", 128, 128, 260, 260)
    assert slideseek("add", tmp_path / "a.png", "--manifest", manifest, "-a", archive).code == 0
    assert slideseek("build", "-a", archive).code == 0
    assert patch_places(archive).tolist() == [[128, 128], [192, 128], [128, 192], [192, 192]]
    outline(tmp_path / "a.geojson", 128, 128, 200, 200)
    again = slideseek("add", tmp_path / "a.png", "--manifest", manifest, "-a", archive, "--json")
    assert again.json["updated"] == ["a"]
    assert slideseek("build", "-a", archive, "--json").json["slides"]["ok"] == 1
    assert patch_places(archive).tolist() == [[128, 128]]
    assert slideseek("add", tmp_path / "a.png", "-a", archive, "--json").json["unchanged"] == ["a"]
