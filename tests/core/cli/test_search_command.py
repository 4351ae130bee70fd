"""`slideseek search`: evidence, confidence, centres and regions, as a person meets them."""

import csv
import io
import json

import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.searching.calibration import Calibration, calibrate
from slideseek.searching.request import Request
from slideseek.searching.searcher import Searcher
from slideseek.searching.votes import vote


def test_evidence_is_shown_and_in_json(tiny_archive, slideseek):
    asked = ("search", "s0", "-a", tiny_archive, "-k", "3")
    done = slideseek(*asked, "--evidence")
    assert done.code == 0 and done.out.count("most like it in") == 3
    assert done.out.count(" at ") == 2 * 3 * 5, "five pairs per hit, a square on both sides"
    hits = slideseek(*asked, "--json", "--evidence=2").json["hits"]
    assert [len(hit["evidence"]["pairs"]) for hit in hits] == [2, 2, 2]
    for hit in hits:
        whole = slideseek(*asked, "--json", "--evidence=999").json["hits"][hit["rank"] - 1]["evidence"]
        assert hit["evidence"]["pairs"] == whole["pairs"][:2] and len(whole["pairs"]) == whole["patches"]["query"]
        assert np.median([pair["distance"] for pair in whole["pairs"]]) == whole["value"] == hit["distance"]
        assert set(whole["pairs"][0]["query"]) == {"patch", "x", "y", "side"}
    contributing = slideseek(*asked, "--engine", "mean", "--json", "--evidence=999").json["hits"]
    for hit in contributing:
        for side in ("query", "hit"):
            parts = [patch["part"] for patch in hit["evidence"][side]]
            assert parts == sorted(parts, reverse=True)
            assert sum(parts) == pytest.approx(1 - hit["distance"], abs=1e-5)
    done = slideseek(*asked, "--engine", "mean", "--evidence=1")
    assert done.out.count("add up to it") == 2 * 3 and done.out.count(" at ") == 2 * 3
    assert "evidence" not in slideseek(*asked, "--json").json["hits"][0]


SENSELESS = [
    (("--evidence=0",), "a number from 1 to 1000"),
    (("--evidence=many",), "a number from 1 to 1000"),
    (("--evidence", "--csv"), "--csv cannot hold the results"),
    (("--calibrate", "--csv"), "--csv cannot hold the results"),
    (("--annotation", "x"), "pass --region FILE.geojson"),
    (("--annotation", "x", "--region", "1,2,3,4"), "pass --region FILE.geojson"),
    (("--region", "none.geojson"), "none.geojson cannot be read"),
    (("--region", "nan,0,1,1"), "cannot read the region"),
    (("--center", "C1"), "center applies to a query file"),
    (("--where", "sites=lung"), "did you mean 'site'?"),
]


def test_options_that_make_no_sense(tiny_archive, slideseek):
    for options, message in SENSELESS:
        done = slideseek("search", "s0", *options, "-a", tiny_archive)
        assert done.code in (1, 2) and message in done.err and "Traceback" not in done.err, options


def test_the_confidence_of_a_vote(tiny_archive, slideseek, tiny_slides):
    asked = ("search", "s0", "-a", tiny_archive)
    votes = slideseek(*asked, "-k", "7", "--json").json["votes"]
    assert votes["label"] == {
        "value": "fine",
        "agreeing": 4,
        "labelled": 7,
        "hits": 7,
        "confidence": round(4 / 7, 4),
    }
    assert votes["site"]["confidence"] == round(4 / 7, 4)
    assert "vote for diagnosis: fine (4 of 7; confidence 0.57)" in slideseek(*asked, "-k", "7").out
    rows = list(csv.DictReader(io.StringIO(slideseek(*asked, "-k", "7", "--csv").out)))
    assert {(row["vote"], row["confidence"]) for row in rows} == {("fine", "0.5714")}
    manifest = tiny_slides / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("s5,s5.png,p5,lung,fine", "s5,s5.png,p5,lung,"))
    slideseek("add", tiny_slides, "--manifest", manifest, "-a", tiny_archive)
    assert "(3 of 7, 6 with a diagnosis; confidence 0.43)" in slideseek(*asked, "-k", "7").out
    assert vote([]) == {}, "no hits have no vote"


def test_a_confidence_is_calibrated_by_slides_of_the_archive(tiny_archive, slideseek):
    with Archive(tiny_archive) as archive:
        searcher = Searcher.open(archive, "bars")
        made = calibrate(searcher, Request(text="s0", k=3))
        right = asked = 0
        for slide_id in searcher.index.ids:
            answer = searcher.search(searcher.queries.stored(slide_id), 3)
            if answer.votes["label"].confidence == 1:
                asked += 1
                right += answer.votes["label"].value == answer.query.label
        assert made["label"].at(1.0) == (right, asked) and asked > 0
        assert sum(count for _, count in made["label"].shares.values()) == 8
        few = calibrate(searcher, Request(text="s0", k=3), sample=3)
        assert sum(count for _, count in few["label"].shares.values()) == 3
    assert Calibration({}).at(0.5) == (0, 0)
    done = slideseek("search", "s0", "-k", "3", "--calibrate", "-a", tiny_archive)
    assert f"{asked} slide(s) of the archive had that confidence; {right} had the right vote" in done.out
    vote = slideseek("search", "s0", "-k", "3", "--calibrate", "--json", "-a", tiny_archive).json["votes"]["label"]
    assert vote["calibration"] == {"right": right, "searched": asked}


def test_slides_of_the_querys_centre_are_left_out(tiny_archive, slideseek, tiny_slides, tmp_path, paint_tiny):
    asked = ("search", "-a", tiny_archive, "-k", "99", "--json")
    for option in ("--exclude-centre", "--exclude-center"):
        found = slideseek(*asked, "s0", option).json
        assert {hit["slide"]["id"] for hit in found["hits"]} == {"s1", "s2", "s4", "s5", "s7"}, "s0, s3, s6 are of C0"
    assert len(slideseek(*asked, "s0").json["hits"]) == 7
    kept = slideseek(*asked, "s0", "--exclude-centre", "--include-same-patient").json
    assert "s0" not in {hit["slide"]["id"] for hit in kept["hits"]}
    paint_tiny(tmp_path / "new.png", 90, True)
    done = slideseek(*asked, tmp_path / "new.png", "--mpp", "1", "--exclude-centre")
    assert done.code == 2 and "is unknown, so its slides cannot be excluded" in done.err and "--center" in done.err
    found = slideseek(*asked, tmp_path / "new.png", "--mpp", "1", "--exclude-centre", "--center", "C1").json
    assert {hit["slide"]["center"] for hit in found["hits"]} == {"C0", "C2"} and found["query"]["center"] == "C1"
    manifest = tiny_slides / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("coarse,C2", "coarse,"))
    slideseek("add", tiny_slides, "--manifest", manifest, "-a", tiny_archive)
    notes = slideseek(*asked, "s0", "--exclude-centre").json["notes"]
    assert any("the centre of 1 slide(s) is unknown" in note for note in notes)


def test_a_region_from_qupath_on_the_command_line(tiny_archive, slideseek, tmp_path):
    ring = [[64, 64], [192, 64], [192, 192], [64, 192], [64, 64]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "geometry": shape, "properties": {"classification": {"name": "Tumor"}}}
    (tmp_path / "drawn.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    asked = ("search", "s3", "-a", tiny_archive, "--include-same-patient", "--json", "--evidence")
    found = slideseek(*asked, "--region", tmp_path / "drawn.geojson", "--annotation", "Tumor").json
    assert found["hits"][0]["slide"]["id"] == "s3" and found["hits"][0]["distance"] == 0
    assert found["hits"][0]["evidence"]["patches"]["query"] == 4
    same = slideseek(*asked, "--region", "64,64,128,128").json
    assert same["hits"] == found["hits"]
    done = slideseek(*asked, "--region", tmp_path / "drawn.geojson", "--annotation", "Tumour")
    assert done.code == 2 and "did you mean 'Tumor'?" in done.err


def test_the_json_of_an_answer_is_complete(tiny_archive, slideseek):
    answer = slideseek("search", "s0", "-a", tiny_archive, "--json").json
    assert set(answer) == {"query", "engine", "unit", "mode", "candidates", "milliseconds", "votes", "hits", "notes"}
    about = {"id", "patient", "site", "label", "center", "path", "fields", "measured"}
    assert set(answer["query"]) == set(answer["hits"][0]["slide"]) == about
    assert set(answer["hits"][0]) == {"rank", "distance", "agrees", "slide"}
    assert answer["query"]["fields"] == {"age": "50"} and answer["hits"][0]["slide"]["path"].endswith(".png")


def test_near_ids_are_suggested(tiny_archive, slideseek):
    for given, said in (
        (("S3",), "did you mean 's3'?"),
        (("s",), "did you mean 's0' or 's1' or 's2'?"),
        (("s33",), "did you mean 's3'"),
        (("P3", "--case"), "did you mean 'p3'?"),
        (("nothing-like-it",), "'slideseek status' lists the slides"),
    ):
        refused = slideseek("search", *given, "-a", tiny_archive)
        assert refused.code == 2 and said in refused.err, refused.err
