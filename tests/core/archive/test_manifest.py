"""Manifests: aliases, and the one line each bad row gets."""

import pytest

from slideseek.archive.manifest import read_manifest
from slideseek.errors import UsageError


def write(tmp_path, text, name="m.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("slide", ["slide_id", "slide", "wsi", "filename", "Slide ID"])
@pytest.mark.parametrize(
    ("patient", "site", "label", "center"),
    [
        ("case_id", "primary_site", "diagnosis", "center"),
        ("patient", "site", "subtype", "tss"),
        ("patient_id", "site", "label", "source_site"),
        ("Patient", "Primary Site", "project_id", "centre"),
    ],
)
def test_column_aliases(tmp_path, slide, patient, site, label, center):
    text = f"{slide},{patient},{site},{label},{center}\na.svs,p1,colon,ade,A2\n"
    manifest = read_manifest(write(tmp_path, text))
    (row,) = manifest.rows
    assert (row.patient, row.site, row.label, row.center) == ("p1", "colon", "ade", "A2")
    assert row.id == ("a" if slide == "filename" else "a.svs")
    assert not manifest.problems and not manifest.notes


def test_slide_id_and_filename_together(tmp_path):
    (row,) = read_manifest(write(tmp_path, "slide_id,filename,case_id\ns1,x/a.svs,p\n")).rows
    assert (row.id, row.path) == ("s1", "x/a.svs")


def test_second_column_of_a_role_and_unknown_columns_are_free_fields(tmp_path):
    manifest = read_manifest(write(tmp_path, "slide_id,case_id,diagnosis,project_id,sitee\ns,p,ade,COAD,colon\n"))
    assert manifest.rows[0].fields == {"project_id": "COAD", "sitee": "colon"}
    (note,) = manifest.notes
    assert note.startswith("m.csv: unknown column(s) kept as free fields: 'project_id', 'sitee' (did you mean 'site'?)")
    assert "rename it" in note and "--where" in note


def test_missing_patient_is_a_problem_with_the_fix(tmp_path):
    path = write(tmp_path, "slide_id,case_id\na,p\nb,\n")
    manifest = read_manifest(path)
    assert [r.id for r in manifest.rows] == ["a"]
    (problem,) = manifest.problems
    assert problem.subject == "b" and "missing patient in m.csv line 3" in problem.cause
    assert "--allow-missing-patient" in problem.fix
    assert [r.id for r in read_manifest(path, allow_missing_patient=True).rows] == ["a", "b"]


def test_conflicting_duplicates_are_a_problem_and_equal_ones_a_note(tmp_path):
    manifest = read_manifest(write(tmp_path, "slide_id,case_id\na,p\nb,p\na,q\nb,p\nc,r\n"))
    assert [r.id for r in manifest.rows] == ["b", "c"]
    assert manifest.problems[0].subject == "a" and "lines 2, 4" in manifest.problems[0].cause
    assert any("line 5: slide 'b' again" in n for n in manifest.notes)


@pytest.mark.parametrize("value", ["abc", "-1", "inf", "nan", "0"])
def test_a_bad_mpp_is_a_problem(tmp_path, value):
    manifest = read_manifest(write(tmp_path, f"slide_id,case_id,mpp\na,p,{value}\nb,p,0.25\nc,p,\n"))
    assert [(r.id, r.mpp) for r in manifest.rows] == [("b", 0.25), ("c", None)]
    assert manifest.problems[0].subject == "a"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_and_byte_order_mark(tmp_path, delimiter):
    path = tmp_path / "m.csv"
    path.write_text(f"slide_id{delimiter}case_id\na{delimiter}p\n", encoding="utf-8-sig")
    assert read_manifest(path).rows[0].patient == "p"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("case_id,site\np,s\n", "no column that names the slide"),
        ("slide_id,slide_id\na,b\n", "column 'slide_id' appears twice"),
    ],
)
def test_unusable_manifests(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        read_manifest(write(tmp_path, text))


def test_rows_with_too_many_cells_and_blank_lines(tmp_path):
    manifest = read_manifest(write(tmp_path, "slide_id,case_id\na,p,extra\n\n,,\nb,q\n"))
    assert [r.id for r in manifest.rows] == ["b"]
    assert "3 cells, 2 columns" in manifest.problems[0].cause


def test_no_patient_column_is_said(tmp_path):
    assert any("no patient column" in n for n in read_manifest(write(tmp_path, "slide_id\na\n")).notes)


@pytest.mark.parametrize(("text", "mpp"), [('"0,25"', 0.25), ("0.25", 0.25), ('"1,0"', 1.0)])
def test_a_decimal_comma_is_read(tmp_path, text, mpp):
    manifest = read_manifest(write(tmp_path, f"slide_id,case_id,mpp\na,p,{text}\n"))
    assert [row.mpp for row in manifest.rows] == [mpp] and not manifest.problems


def test_a_decimal_comma_in_a_file_with_semicolons(tmp_path):
    manifest = read_manifest(write(tmp_path, "slide_id;case_id;mpp\na;p;0,5\nb;p;1,000.5\n"))
    assert [row.mpp for row in manifest.rows] == [0.5] and [one.subject for one in manifest.problems] == ["b"]
