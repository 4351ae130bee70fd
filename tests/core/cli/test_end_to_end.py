"""From slides to hits through the command line, as a person would do it."""

import csv
import io
import json

import pytest
from PIL import Image


def test_search_finds_itself_first_at_distance_zero(tiny_archive, slideseek):
    for engine in ("bars", "mean"):
        for slide in ("s0", "s5"):
            done = slideseek(
                "search", slide, "-a", tiny_archive, "--engine", engine, "--include-same-patient", "--json", "-k", "3"
            )
            hits = done.json["hits"]
            assert (hits[0]["slide"]["id"], hits[0]["distance"]) == (slide, pytest.approx(0, abs=1e-6))
            assert [h["distance"] for h in hits] == sorted(h["distance"] for h in hits)


def test_the_own_patient_is_left_out_by_default(tiny_archive, slideseek):
    hits = slideseek("search", "s0", "-a", tiny_archive, "--json", "-k", "99").json["hits"]
    assert {h["slide"]["id"] for h in hits} == {f"s{n}" for n in range(1, 8)}


def test_same_texture_is_nearest_and_wins_the_vote(tiny_archive, slideseek):
    answer = slideseek("search", "s0", "-a", tiny_archive, "--json", "-k", "3").json
    assert [h["slide"]["label"] for h in answer["hits"]] == ["coarse"] * 3
    assert answer["votes"]["label"] == {"value": "coarse", "agreeing": 3, "labelled": 3, "hits": 3, "confidence": 1.0}


def test_vertical_and_filters_are_masks(tiny_archive, slideseek):
    def ids(*more):
        done = slideseek("search", "s0", "-a", tiny_archive, "--json", "-k", "99", *more)
        return {hit["slide"]["id"] for hit in done.json["hits"]}

    assert ids("--vertical") == {"s1", "s2", "s3"}
    assert ids("--where", "site=lung") == {"s4", "s5", "s6", "s7"}
    assert ids("--where", "site=lung", "--where", "label!=fine") == {"s4", "s6"}
    assert ids("--where", "age>=56") == {"s6", "s7"}
    assert ids("--where", "label in x,y") == set()


def test_query_by_file_equals_query_by_id(tiny_archive, tiny_slides, slideseek):
    by_id = slideseek("search", "s3", "-a", tiny_archive, "--json").json
    by_file = slideseek("search", tiny_slides / "s3.png", "-a", tiny_archive, "--json").json
    assert by_file["hits"] == by_id["hits"]
    assert any("is slide 's3' of the archive" in note for note in by_file["notes"])


def test_query_by_a_new_file(tiny_archive, tmp_path, slideseek, paint_tiny):
    paint_tiny(tmp_path / "s1.png", 77, coarse=True)
    without = slideseek("search", tmp_path / "s1.png", "-a", tiny_archive, "--json")
    assert without.code == 1 and "resolution" in without.err and "--mpp" in without.err
    answer = slideseek("search", tmp_path / "s1.png", "-a", tiny_archive, "--json", "--mpp", "1", "-k", "99").json
    assert len(answer["hits"]) == 8, "a slide that shares the file's stem is not left out"
    assert answer["hits"][0]["slide"]["label"] == "coarse"
    vertical = slideseek("search", tmp_path / "s1.png", "-a", tiny_archive, "--mpp", "1", "--vertical")
    assert vertical.code == 2 and "--site" in vertical.err
    answer = slideseek(
        "search", tmp_path / "s1.png", "-a", tiny_archive, "--json", "--mpp", "1", "--vertical", "--site", "lung"
    ).json
    assert {h["slide"]["site"] for h in answer["hits"]} == {"lung"}
    assert slideseek("status", "-a", tiny_archive, "--json").json["slides"][-1]["id"] == "s7", "it was not added"


@pytest.mark.parametrize("option", [("--site", "lung"), ("--patient", "p0"), ("--mpp", "1"), ("--mag", "10")])
def test_what_is_for_files_is_refused_for_slides_of_the_archive(tiny_archive, slideseek, option):
    done = slideseek("search", "s0", "-a", tiny_archive, *option)
    assert done.code == 2
    name = "mpp" if option[0] == "--mag" else option[0].removeprefix("--")
    assert f"{name} applies to a query file, but 's0' is a slide of the archive" in done.err


def test_a_file_of_the_archive_has_the_archives_site(tiny_archive, tiny_slides, slideseek):
    notes = slideseek("search", tiny_slides / "s3.png", "-a", tiny_archive, "--site", "lung", "--json").json["notes"]
    assert any("not used: site (the archive's own record" in note for note in notes)


def test_a_vertical_search_of_a_slide_without_a_site_says_what_helps(tiny_archive, tiny_slides, slideseek, paint_tiny):
    paint_tiny(tiny_slides / "new.png", 5, coarse=True)
    slideseek("add", tiny_slides / "new.png", "-a", tiny_archive, "--mpp", "1")
    assert slideseek("build", "-a", tiny_archive).code == 0
    done = slideseek("search", "new", "-a", tiny_archive, "--vertical")
    assert done.code == 2 and "primary_site" in done.err and "--site" not in done.err


def test_the_title_is_one_line_however_narrow_the_table(tiny_archive, slideseek):
    lines = slideseek("search", "s0", "-a", tiny_archive, "-k", "1").out.splitlines()
    assert lines[0] == "s0 (colon, coarse) - nearest in the archive, engine bars"


def test_filters_by_the_manifests_own_headings(tiny_archive, slideseek):
    def ids(where):
        done = slideseek("search", "s0", "-a", tiny_archive, "--json", "-k", "99", "--where", where)
        return {hit["slide"]["id"] for hit in done.json["hits"]}

    assert ids("primary_site=lung") == ids("site=lung") == {"s4", "s5", "s6", "s7"}
    assert ids("diagnosis in fine") == {"s1", "s3", "s5", "s7"}
    assert ids("case_id=p3") == {"s3"}


def test_table_and_csv(tiny_archive, slideseek):
    table = slideseek("search", "s0", "-a", tiny_archive)
    assert table.code == 0 and "vote for diagnosis: coarse" in table.out and "7 candidates" in table.out
    rows = list(csv.DictReader(io.StringIO(slideseek("search", "s0", "-a", tiny_archive, "--csv").out)))
    assert [r["rank"] for r in rows] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "s0x"), "did you mean 's0'?"),
        (("search", "s0", "--engine", "barz"), "did you mean 'bars'?"),
        (("search", "s0", "--where", "sit=lung"), "did you mean 'site'?"),
        (("search", "s0", "--where", "diagnossis=x"), "did you mean 'diagnosis'?"),
        (("search", "s0", "-k", "0"), "k must be a whole number of at least 1"),
        (("search", "s0", "--json", "--csv"), "cannot be used together"),
        (("build", "--engine", "nope"), "no engine named 'nope'"),
        (("add",), "nothing to add"),
        (("serch",), "Did you mean 'search'?"),
    ],
)
def test_wrong_arguments_are_usage_errors_with_a_hint(tiny_archive, slideseek, arguments, message):
    extra = () if arguments[0] == "serch" else ("-a", tiny_archive)
    done = slideseek(*arguments, *extra)
    assert done.code == 2
    assert message in done.err and "Traceback" not in done.err


def test_no_archive(tmp_path, slideseek, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "slideseek init" in slideseek("status").err
    assert slideseek("status", "-a", tmp_path).code == 2


def test_archive_is_found_from_a_folder_below(tiny_archive, slideseek, monkeypatch):
    (tiny_archive / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tiny_archive / "deep" / "er")
    assert slideseek("status", "--json").json["archive"] == str(tiny_archive)


def test_init_refuses_an_archive_and_a_bad_config(tiny_archive, tmp_path, slideseek):
    assert "is already an archive" in slideseek("init", tiny_archive).err
    bad = tmp_path / "bad.toml"
    bad.write_text(
        '[[engine]]\nname="x"\nselector="grid"\nfeaturizer="colour-texture"\nencoder="mean"\nindex="hamming"\n'
    )
    done = slideseek("init", tmp_path / "other", "--config", bad)
    assert done.code == 2 and "does not accept the codes" in done.err
    assert not (tmp_path / "other").exists()


def test_a_second_build_does_nothing(tiny_archive, slideseek):
    done = slideseek("build", "-a", tiny_archive, "--json")
    assert done.json["slides"] == {"ok": 0, "skipped": 8, "failed": 0}
    assert done.json["indexed"] == {"bars": 8, "mean": 8}


def test_status_tells_the_truth(tiny_archive, slideseek):
    status = slideseek("status", "-a", tiny_archive, "--json").json
    assert [e["coded"] for e in status["engines"]] == [8, 8]
    assert all(e["index_fresh"] for e in status["engines"])
    stage = status["slides"][0]["engines"]["bars"]["stages"]["featurize"]
    assert stage["status"] == "done" and stage["attempts"] == 1 and stage["items"] > 4 and stage["bytes"] > 0
    assert status["last_run"]["outcome"] == "done"
    assert "8 of 8 slides have a code" in slideseek("status", "-a", tiny_archive).out


def test_status_with_an_engine_that_cannot_be_used(tiny_archive, slideseek):
    config = tiny_archive / "slideseek.toml"
    config.write_text(config.read_text().replace('use = "mean"', 'use = "mean", l3 = true'))
    done = slideseek("status", "-a", tiny_archive)
    assert done.code == 0
    assert "failed  engine 'mean': engine.mean.encoder.l3: no option 'l3' in encoder 'mean' -> " in done.out
    assert "engine 'bars': 8 of 8 slides have a code" in done.out
    status = slideseek("status", "-a", tiny_archive, "--json").json
    bars, mean = status["engines"]
    assert bars["error"] is None and bars["coded"] == 8 and bars["index_fresh"]
    assert "l3" in mean["error"]["cause"] and mean["error"]["fix"]
    assert {name: state["state"] for name, state in status["slides"][0]["engines"].items()} == {
        "bars": "done",
        "mean": "unknown",
    }


def test_slides_are_counted_by_how_they_end(tmp_path, tiny_slides, tiny_config, slideseek, monkeypatch):
    from slideseek_components.encoders.mean import Mean

    real = Mean.encode

    def encode(self, bag):
        if bag.slide_id in ("s2", "s3"):
            raise RuntimeError("no code")
        return real(self, bag)

    monkeypatch.setattr(Mean, "encode", encode)
    archive = tmp_path / "archive"
    slideseek("init", archive, "--config", tiny_config)
    slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", archive)
    done = slideseek("build", "-a", archive)
    assert done.code == 3
    assert "8 slides: 6 ok, 0 skipped, 2 failed" in done.out
    again = slideseek("build", "-a", archive, "--json")
    assert again.json["slides"] == {"ok": 0, "skipped": 6, "failed": 2}
    assert set(again.json["failures"]) == {"s2", "s3"}


def test_refit_learns_from_all_slides(tmp_path, tiny_slides, slideseek, paint_tiny):
    config = tmp_path / "words.toml"
    config.write_text(
        '[[engine]]\nname = "words"\nselector = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }\n'
        'featurizer = "colour-texture"\nencoder = { use = "bovw", words = 4 }\nindex = "cosine"\n'
    )
    archive = tmp_path / "archive"
    assert slideseek("init", archive, "--config", config).code == 0
    slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", archive)
    first = slideseek("build", "-a", archive)
    assert first.code == 0 and "fitting 'bovw' on 8 slides" in first.err
    models = set((archive / "models").iterdir())
    paint_tiny(tiny_slides / "new.png", 5, coarse=True)
    slideseek("add", tiny_slides / "new.png", "-a", archive, "--mpp", "1")
    second = slideseek("build", "-a", archive)
    assert second.code == 0 and "pass --refit" in second.err and "fitting" not in second.err
    assert set((archive / "models").iterdir()) == models, "a model is not refitted behind one's back"
    third = slideseek("build", "-a", archive, "--refit")
    assert third.code == 0 and "fitting 'bovw' on 9 slides" in third.err
    assert set((archive / "models").iterdir()) != models
    status = slideseek("status", "-a", archive, "--json").json
    assert status["engines"][0]["coded"] == 9 and status["engines"][0]["index_fresh"]
    assert "pass --refit" not in slideseek("build", "-a", archive).err


def test_engines_share_their_features(tiny_archive):
    folders = list((tiny_archive / "features").iterdir())
    assert len(folders) == 1 and len(list(folders[0].iterdir())) == 8


def test_plugins_list_and_show(slideseek):
    listed = slideseek("plugins", "list", "--json").json
    assert {"yottixel", "mean"} <= {c["name"] for c in listed["components"] if c["kind"] == "encoder"}
    shown = slideseek("plugins", "show", "mosaic", "--json").json
    assert {o["name"]: o["default"] for o in shown["options"]}["percent"] == "15.0"
    assert "did you mean 'mosaic'" in slideseek("plugins", "show", "mosiac").err


def test_plugins_check(slideseek):
    done = slideseek("plugins", "check", "yottixel", "--json")
    assert done.code == 0
    assert len(done.json["checks"]) >= 8 and all(c["passed"] for c in done.json["checks"])


def test_json_stays_json_with_notes(tiny_archive, slideseek, tiny_slides):
    text = (tiny_slides / "manifest.csv").read_text()
    (tiny_slides / "manifest.csv").write_text(text.replace("s7,s7.png,p7,lung", "s7,s7.png,p7,liver"))
    changed = slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", tiny_archive, "--json")
    assert changed.json["updated"] == ["s7"]
    done = slideseek("search", "s0", "-a", tiny_archive, "--json", "-k", "99")
    notes = json.loads(done.out)["notes"]
    assert any("1 slide(s) of the archive are not in the index" in note for note in notes)
    assert "s7" not in [hit["slide"]["id"] for hit in json.loads(done.out)["hits"]], "its code was of another site"
    assert len(done.json["hits"]) == 6, "s7's code was of another site and is gone"
    assert slideseek("build", "-a", tiny_archive).code == 0
    after = slideseek("search", "s0", "-a", tiny_archive, "--json", "-k", "99").json
    assert len(after["hits"]) == 7 and not after["notes"]


def test_region_patch_and_case_queries(tiny_archive, tiny_slides, tmp_path, slideseek):
    part = slideseek(
        "search", "s1", "--region", "64,64,128,128", "-a", tiny_archive, "--json", "--include-same-patient"
    )
    assert part.json["hits"][0]["slide"]["id"] == "s1" and part.json["hits"][0]["distance"] == 0
    with Image.open(tiny_slides / "s2.png") as image:
        image.crop((64, 64, 128, 128)).save(tmp_path / "patch.png")
    patch = slideseek("search", tmp_path / "patch.png", "--patch", "-a", tiny_archive, "--json")
    assert patch.json["hits"][0]["slide"]["id"] == "s2"
    case = slideseek("search", "p3", "--case", "-a", tiny_archive, "--json", "-k", "99")
    assert len(case.json["hits"]) == 7 and "s3" not in {h["slide"]["id"] for h in case.json["hits"]}
    outside = slideseek("search", "s1", "--region", "300,300,100,100", "-a", tiny_archive)
    assert outside.code == 2 and "is not inside slide 's1'" in outside.err
    assert slideseek("search", "p3", "--case", "--patch", "-a", tiny_archive).code == 2
