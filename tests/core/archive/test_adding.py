"""Who a slide is: by content and name, never by the folder it lies in."""

import json
import shutil

import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import unpack_patches
from slideseek_apps.demo.histology import write_slide


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
    hits = slideseek("search", "a", "-a", archive, "--json", "--include-same-patient").json["hits"]
    assert [(h["slide"]["id"], h["distance"]) for h in hits] == [("a", 0.0), ("b", 0.0)]
    left = slideseek("search", "a", "-a", archive, "--json").json
    assert left["hits"] == [], "a slide does not find itself under another name"


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
    assert done.code == 3 and "2 files match" in done.err and "not listed in m.csv" in done.err
    manifest.write_text("slide_id,path,case_id\nx,two/x.png,p\n")
    assert slideseek("add", "--manifest", manifest, "-a", archive).code == 0
    assert slides(archive)["x"].record.path.endswith("two/x.png")


def outline(path, x0, y0, x1, y1):
    ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
    path.write_text(json.dumps({"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}}))


def patch_places(folder):
    with Archive(folder) as archive:
        (record, *_) = archive.catalog.stages("select")
        payload = archive.catalog.payload(record.key)
        assert payload is not None
        return unpack_patches(payload, record.slide_id).xy


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


def test_a_manifest_that_lacks_a_column_leaves_that_alone(archive, tmp_path, slideseek, paint_tiny):
    paint_tiny(tmp_path / "a.png", 1, coarse=True)
    manifest = tmp_path / "m.csv"
    manifest.write_text("slide_id,case_id,site,diagnosis,mpp,age\na,p,colon,ade,1,60\n")
    slideseek("add", tmp_path / "a.png", "--manifest", manifest, "-a", archive)
    slideseek("build", "-a", archive)
    manifest.write_text("slide_id,stage\na,IV\n")
    assert slideseek("add", tmp_path / "a.png", "--manifest", manifest, "-a", archive, "--json").json["updated"] == [
        "a"
    ]
    record = slides(archive)["a"].record
    assert (record.patient, record.site, record.label, record.mpp) == ("p", "colon", "ade", 1.0)
    assert record.fields == {"age": "60", "stage": "IV"}
    assert slideseek("build", "-a", archive, "--json").json["slides"]["skipped"] == 1
    manifest.write_text("slide_id,case_id,site\na,p,\n")
    slideseek("add", tmp_path / "a.png", "--manifest", manifest, "-a", archive)
    assert slides(archive)["a"].record.site == "", "an empty cell of a column that is there clears"


def test_two_rows_for_one_file_are_refused(archive, tmp_path, slideseek, paint_tiny):
    paint_tiny(tmp_path / "TCGA-AA-0001.aaaa.png", 1, coarse=True)
    manifest = tmp_path / "m.csv"
    manifest.write_text("slide_id,case_id,mpp\nTCGA-AA-0001,p,1\nTCGA-AA-0001.aaaa,q,1\n")
    done = slideseek("add", tmp_path / "TCGA-AA-0001.aaaa.png", "--manifest", manifest, "-a", archive)
    assert done.code == 3 and done.err.count("lines 2, 3 name the same file") == 2
    assert not slides(archive)


def test_a_manifest_names_a_slide_that_was_added_without_one(archive, tmp_path, slideseek, paint_tiny):
    paint_tiny(tmp_path / "a.png", 1, coarse=True)
    slideseek("add", tmp_path / "a.png", "-a", archive, "--mpp", "1")
    slideseek("build", "-a", archive)
    manifest = tmp_path / "m.csv"
    manifest.write_text("slide_id,filename,case_id\nS-001,a.png,p\n")
    done = slideseek("add", tmp_path / "a.png", "--manifest", manifest, "-a", archive)
    assert "slide 'a' is now named 'S-001'" in done.err
    assert list(slides(archive)) == ["S-001"] and slides(archive)["S-001"].record.mpp == 1.0
    assert slideseek("build", "-a", archive, "--json").json["slides"] == {"ok": 0, "skipped": 1, "failed": 0}


def test_a_stated_resolution_serves_only_slides_without_one(archive, tmp_path, slideseek, paint_tiny):
    paint_tiny(tmp_path / "none.png", 1, coarse=True)
    write_slide(tmp_path / "own.svs", np.full((512, 512, 3), 200, np.uint8), mpp=0.25)
    done = slideseek("add", tmp_path / "none.png", tmp_path / "own.svs", "-a", archive, "--mpp", "1")
    assert "own: states its own resolution, so 1 µm/px was not used" in done.err
    assert {i: row.record.mpp for i, row in slides(archive).items()} == {"none": 1.0, "own": None}
    slideseek("add", tmp_path / "own.svs", "-a", archive, "--mpp", "0.5", "--override-mpp")
    assert slides(archive)["own"].record.mpp == 0.5


def test_paths_with_dots_and_links_are_the_same_file(archive, tmp_path, slideseek, paint_tiny, monkeypatch):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    paint_tiny(tmp_path / "in" / "a.png", 1, coarse=True)
    slideseek("add", tmp_path / "in" / "a.png", "-a", archive)
    monkeypatch.chdir(tmp_path / "in" / "deep")
    assert slideseek("add", "../a.png", "-a", archive, "--mpp", "1", "--json").json["updated"] == ["a"]
    (tmp_path / "link").symlink_to(tmp_path / "in")
    assert slideseek("add", tmp_path / "link" / "a.png", "-a", archive, "--json").json["updated"] == ["a"]
    assert len(slides(archive)) == 1


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "x" * 2000])
def test_ids_that_could_hurt_a_terminal_are_refused(archive, tmp_path, slideseek, paint_tiny, name):
    paint_tiny(tmp_path / "a.png", 1, coarse=True)
    manifest = tmp_path / "m.csv"
    manifest.write_text(f'slide_id,path,case_id\n"{name}",a.png,p\n')
    done = slideseek("add", tmp_path / "a.png", "--manifest", manifest, "-a", archive)
    assert done.code == 3 and "control characters" in done.err and "\x1b" not in done.err


def test_removed_slides_are_gone_with_what_was_computed(tiny_archive, slideseek):
    (folder,) = (tiny_archive / "features").iterdir()
    assert "did you mean 's3'" in slideseek("remove", "s33", "-a", tiny_archive).err
    done = slideseek("remove", "s3", "s4", "-a", tiny_archive)
    assert done.code == 0 and "6 left" in done.out
    assert {f.stem for f in folder.iterdir()} == {f"s{n}" for n in (0, 1, 2, 5, 6, 7)}
    found = slideseek("search", "s0", "-a", tiny_archive, "--json", "-k", "99").json
    assert {h["slide"]["id"] for h in found["hits"]} == {"s1", "s2", "s5", "s6", "s7"}
    assert not found["notes"], "the saved index has caught up with the catalogue: nothing to say"
    assert slideseek("build", "-a", tiny_archive, "--json").json["indexed"] == {"bars": 6, "mean": 6}
    assert not slideseek("search", "s0", "-a", tiny_archive, "--json").json["notes"]


def test_slides_without_a_patient_are_noted(archive, tiny_slides, slideseek):
    added = slideseek("add", tiny_slides, "-a", archive, "--mpp", "1", "--json").json
    assert [note for note in added["notes"] if note.startswith("8 of 8 new slide(s) have no patient")]
    again = slideseek("add", tiny_slides, "-a", archive, "--mpp", "1", "--json").json
    assert not [note for note in again["notes"] if "no patient" in note], "said once, when they are new"


def test_a_dicom_series_brings_its_patient_and_a_manifest_may_name_its_folder(
    archive, shared_data, tmp_path, slideseek
):
    series = tmp_path / "series-1"
    shutil.copytree(shared_data / "slides-formats" / "cmu-dicom", series)
    for rows in ("slide_id,path,case_id\nA,series-1,p1\n", "slide_id,case_id\nseries-1,p2\n"):
        manifest = tmp_path / "manifest.csv"
        manifest.write_text(rows)
        done = slideseek("add", series, "--manifest", manifest, "-a", archive, "--json").json
        assert not done["problems"], done
    assert {row.id: row.record.patient for row in slides(archive).values()} == {"series-1": "p2"}


def test_the_patient_of_a_dicom_series_is_its_patient_id(archive, tmp_path, slideseek, monkeypatch, paint_tiny):
    from slideseek.archive import adding

    monkeypatch.setattr(adding, "dicom_property", lambda path, keyword: f"{keyword} of {path.stem}")
    paint_tiny(tmp_path / "x.png", 0, coarse=True)
    assert slideseek("add", tmp_path / "x.png", "-a", archive, "--mpp", "1").code == 0
    assert slides(archive)["x"].record.patient == "PatientID of x"
