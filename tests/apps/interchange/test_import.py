"""Features of other tools, imported, built and searched: as if they had been computed here."""

import shutil
from typing import Any

import h5py
import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.config import parse_config
from slideseek.engine import make_engines
from slideseek.indexing.live_index import open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import load_registry


def ours(root, name="bars"):
    """Return the bag of every slide of an engine that computed its features itself."""
    with Archive(root) as archive:
        engine = open_engine(archive, archive.config.engine(name), load_registry())
        stages = StageCache(archive, print)
        return {slide.id: archive.bag(key, slide.record) for slide, key in stages.ready(engine)}


def feature_keys(root):
    with Archive(root) as archive:
        engine = open_engine(archive, archive.config.engine(), load_registry())
        stages = StageCache(archive, print)
        return {slide.id: key for slide, key in stages.ready(engine)}


def same_codes(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[slide], other[slide]) for slide in one)


def test_imported_features_give_the_codes_of_the_same_features_computed_here(
    tiny_archive, tiny_slides, tmp_path, theirs, slideseek, codes_of, write_trident
):
    folder = tmp_path / "job" / "10x_64px_0px_overlap" / "features_uni_v1"
    for slide, bag in ours(tiny_archive).items():
        write_trident(folder / f"{slide}.h5", bag.features, bag.xy.astype(np.int64))
    archive = theirs(width=256)
    done = slideseek("import", tmp_path / "job", "-a", archive, "--manifest", tiny_slides / "manifest.csv", "--json")
    assert done.code == 0, done.err
    assert len(done.json["imported"]) == len(done.json["added"]) == 8 and done.json["engine"] is None
    built = slideseek("build", "-a", archive, "--json")
    assert built.code == 0 and built.json["slides"] == {"ok": 0, "skipped": 8, "failed": 0}, "no pixel is looked at"
    assert same_codes(codes_of(archive, "theirs"), codes_of(tiny_archive, "bars"))
    query = ("s0", "--json", "-k", "9", "--vertical")
    hits = [slideseek("search", *query, "-a", root).json["hits"] for root in (archive, tiny_archive)]
    kept = ("id", "patient", "site", "label")
    there, here = (
        [{"distance": hit["distance"], **{name: hit["slide"][name] for name in kept}} for hit in found]
        for found in hits
    )
    assert there == here and {hit["site"] for hit in there} == {"colon"}


def test_slides_of_the_archive_keep_their_record(
    tiny_archive, tmp_path, slideseek, write_trident, codes_of, paint_tiny
):
    folder = tmp_path / "features_uni_v1"
    bags = ours(tiny_archive)
    for slide in ("s0", "s1"):
        write_trident(folder / f"{slide}.h5", bags[slide].features, bags[slide].xy.astype(np.int64))
    before = {slide["id"]: slide for slide in slideseek("status", "-a", tiny_archive, "--json").json["slides"]}
    done = slideseek("import", folder, "-a", tiny_archive, "--json").json
    assert (done["imported"], done["added"], done["width"]) == (["s0", "s1"], [], 256)
    with (tiny_archive / "slideseek.toml").open("a") as config:
        config.write(done["engine"])
    after = {slide["id"]: slide for slide in slideseek("status", "-a", tiny_archive, "--json").json["slides"]}
    for slide in before:
        assert all(before[slide][name] == after[slide][name] for name in ("path", "fingerprint", "patient", "mpp"))
    built = slideseek("build", "-a", tiny_archive, "--json")
    assert built.code == 3 and built.json["indexed"] == {"bars": 8, "mean": 8, "uni_v1": 2}
    assert built.json["failures"]["s2"] == {
        "cause": "the features of set 'uni_v1' were imported; slide 's2' has none",
        "fix": "import them with 'slideseek import'",
    }
    both = codes_of(tiny_archive, "uni_v1"), codes_of(tiny_archive, "bars")
    assert all(np.array_equal(both[0][slide], both[1][slide]) for slide in ("s0", "s1"))
    paint_tiny(tmp_path / "new.png", 99, coarse=True)
    query = slideseek("search", tmp_path / "new.png", "-a", tiny_archive, "--engine", "uni_v1", "--mpp", "1")
    assert query.code == 1 and "the features of set 'uni_v1' were imported; slide 'new' has none" in query.err


def test_importing_again_changes_nothing(trident_job, theirs, slideseek, codes_of):
    archive = theirs()
    slideseek("import", trident_job, "-a", archive)
    slideseek("build", "-a", archive)
    codes = codes_of(archive, "theirs")
    again = slideseek("import", trident_job, "-a", archive, "--json").json
    assert (again["imported"], again["replaced"], again["unchanged"]) == ([], [], ["a", "b", "c"])
    assert same_codes(codes_of(archive, "theirs"), codes)
    assert slideseek("status", "-a", archive, "--json").json["engines"][0]["index_fresh"]


def test_changed_features_replace_the_old_and_their_codes(
    trident_job, theirs, slideseek, codes_of, bag_of, write_trident
):
    archive = theirs()
    slideseek("import", trident_job, "-a", archive)
    slideseek("build", "-a", archive)
    before, keys = codes_of(archive, "theirs"), feature_keys(archive)
    file = trident_job / "20x_256px_0px_overlap" / "features_uni_v1" / "b.h5"
    write_trident(file, *bag_of(77))
    again = slideseek("import", trident_job, "-a", archive, "--json").json
    assert (again["imported"], again["replaced"], again["unchanged"]) == ([], ["b"], ["a", "c"])
    assert codes_of(archive, "theirs").keys() == {"a", "c"}, "a code of features that are gone is not found"
    after = feature_keys(archive)
    assert after["b"] != keys["b"] and after["a"] == keys["a"], "content is in the key, as a model fitted on it sees"
    slideseek("build", "-a", archive)
    codes = codes_of(archive, "theirs")
    assert not np.array_equal(codes["b"], before["b"]) and np.array_equal(codes["a"], before["a"])
    write_trident(file, *bag_of(1))
    assert slideseek("import", trident_job, "-a", archive, "--json").json["replaced"] == ["b"]
    slideseek("build", "-a", archive)
    assert same_codes(codes_of(archive, "theirs"), before), "and back"


def test_changed_features_of_a_slide_with_pixels(tiny_archive, tmp_path, slideseek, write_trident, bag_of, codes_of):
    folder = tmp_path / "features_uni_v1"
    write_trident(folder / "s0.h5", *bag_of(0))
    with (tiny_archive / "slideseek.toml").open("a") as config:
        config.write(slideseek("import", folder, "-a", tiny_archive, "--json").json["engine"])
    slideseek("build", "-a", tiny_archive)
    before = codes_of(tiny_archive, "uni_v1")["s0"]
    write_trident(folder / "s0.h5", *bag_of(1))
    assert slideseek("import", folder, "-a", tiny_archive, "--json").json["replaced"] == ["s0"]
    slideseek("build", "-a", tiny_archive)
    assert not np.array_equal(codes_of(tiny_archive, "uni_v1")["s0"], before)
    assert len(codes_of(tiny_archive, "bars")) == 8


def test_a_second_set_is_another_engines(trident_job, theirs, slideseek, codes_of):
    archive = theirs()
    slideseek("import", trident_job, "-a", archive)
    other = slideseek("import", trident_job, "-a", archive, "--set", "other", "--json").json
    assert len(other["imported"]) == 3 and other["added"] == []
    with (archive / "slideseek.toml").open("a") as config:
        config.write(other["engine"])
    assert slideseek("build", "-a", archive).code == 0
    assert same_codes(codes_of(archive, "theirs"), codes_of(archive, "other"))
    assert len(list((archive / "features").iterdir())) == 2


def test_bad_files_are_reported_and_the_others_are_imported(trident_job, theirs, slideseek):
    folder = trident_job / "20x_256px_0px_overlap" / "features_uni_v1"
    with h5py.File(folder / "bad.h5", "w") as file:
        file["features"] = h5py.SoftLink("/x")
    (folder / "broken.npy").write_bytes(b"x")
    np.save(folder / "nowhere.npy", np.ones((3, 24), np.float32))
    np.savez(folder / "wide.npz", features=np.ones((3, 25), np.float32), coords=np.zeros((3, 2), np.int32))
    archive = theirs()
    done = slideseek("import", trident_job, "-a", archive)
    assert done.code == 3
    assert "3 imported" in done.out and "4 failed" in done.out
    assert "failed  bad.h5: 'features' is a link, not a dataset in the file itself" in done.err
    assert "failed  nowhere.npy: it has no 'coords'" in done.err and "--without-coords" in done.err
    assert "failed  wide.npz: its features have 25 values per patch, those of set 'uni_v1' have 24" in done.err
    assert "Traceback" not in done.err
    assert len(slideseek("status", "-a", archive, "--json").json["slides"]) == 3


def test_a_killed_or_damaged_import_is_repaired_by_another(trident_job, theirs, slideseek, codes_of):
    archive = theirs()
    slideseek("import", trident_job, "-a", archive)
    slideseek("build", "-a", archive)
    codes = codes_of(archive, "theirs")
    (stored,) = (archive / "features").iterdir()
    (stored / "a.h5").write_bytes(b"half")
    (stored / "b.h5").unlink()
    again = slideseek("import", trident_job, "-a", archive, "--json").json
    assert (again["imported"], again["unchanged"]) == (["a", "b"], ["c"])
    assert slideseek("build", "-a", archive).code == 0
    assert same_codes(codes_of(archive, "theirs"), codes)


def test_the_printed_engine_can_be_pasted(trident_job, tmp_path, slideseek):
    slideseek("init", tmp_path / "archive")
    done = slideseek("import", trident_job, "-a", tmp_path / "archive")
    block = done.out[done.out.index("[[engine]]") :]
    (engine,) = make_engines(parse_config(block).engines, load_registry())
    assert (engine.name, engine.featurizer.width) == ("uni_v1", 24)
    selector: Any = engine.selector
    featurizer: Any = engine.featurizer
    assert selector.set == featurizer.set == "uni_v1"
    with (tmp_path / "archive" / "slideseek.toml").open("a") as config:
        config.write(block)
    assert "[[engine]]" not in slideseek("import", trident_job, "-a", tmp_path / "archive").out


def test_a_manifest_names_slides_by_their_own_files(trident_job, theirs, tmp_path, slideseek):
    table = tmp_path / "cohort.csv"
    table.write_text(
        "slide_id,path,case_id,primary_site,mpp\nfirst,x/a.svs,p1,lung,0.25\nb,,,lung,\ngone,gone.svs,p3,colon,\n"
    )  # a by its file's stem; b names no patient; c is not named
    archive = theirs()
    done = slideseek("import", trident_job, "-a", archive, "--manifest", table, "--json")
    assert done.code == 3 and done.json["imported"] == ["first"]
    assert "missing patient" in done.json["problems"][0]["cause"]
    notes = " ".join(done.json["notes"])
    assert "2 file(s) were not imported because cohort.csv does not list their slides: b.h5, c.h5" in notes
    assert "1 slide(s) in cohort.csv have no feature file: gone" in notes
    (slide,) = slideseek("status", "-a", archive, "--json").json["slides"]
    assert (slide["patient"], slide["site"], slide["mpp"]) == ("p1", "lung", 0.25)
    assert slide["path"].endswith("features_uni_v1/a.h5") and slide["fingerprint"].startswith("sha256:")
    allowed = ("--manifest", table, "--allow-missing-patient", "--json")
    assert slideseek("import", trident_job, "-a", archive, *allowed).json["imported"] == ["b"]


def test_a_new_site_in_the_manifest_drops_the_code(trident_job, theirs, tmp_path, slideseek, codes_of):
    table = tmp_path / "cohort.csv"
    archive = theirs()
    for site, left in (("lung", {"a", "b", "c"}), ("liver", {"b", "c"})):
        table.write_text(f"slide_id,case_id,site\na,p1,{site}\nb,p2,lung\nc,p3,lung\n")
        slideseek("import", trident_job, "-a", archive, "--manifest", table)
        if site == "lung":
            slideseek("build", "-a", archive)
        assert codes_of(archive, "theirs").keys() == left
    assert slideseek("status", "-a", archive, "--json").json["slides"][0]["site"] == "liver"


def test_names_that_do_not_distinguish_slides(theirs, tmp_path, slideseek, write_trident, bag_of):
    folder = tmp_path / "features_uni_v1"
    write_trident(folder / "T-1.h5", *bag_of(0))
    archive = theirs()
    slideseek("import", folder, "-a", archive)
    shutil.move(folder / "T-1.h5", folder / "T-1.aaaa.h5")
    write_trident(folder / "T-1.bbbb.h5", *bag_of(1))
    done = slideseek("import", folder, "-a", archive, "--json")
    assert done.json["unchanged"] == ["T-1"], "what stands before the first dot is the slide's id"
    assert done.code == 3 and done.json["problems"][0]["cause"] == "it belongs to slide 'T-1', and so does T-1.aaaa.h5"


def test_features_without_places(theirs, tmp_path, slideseek, codes_of, bag_of):
    folder = tmp_path / "features_uni_v1"
    folder.mkdir()
    np.save(folder / "a.npy", bag_of(0)[0])
    archive = theirs()
    done = slideseek("import", folder, "-a", archive, "--without-coords", "--json")
    assert done.code == 0 and done.json["imported"] == ["a"]
    assert "1 file(s) have no coords: their patches cannot be shown or exported" in done.json["notes"]
    assert slideseek("build", "-a", archive).code == 0
    assert codes_of(archive, "theirs")["a"].shape[0] == 12
    refused = slideseek("export", "patches", "-a", archive, "-o", tmp_path / "out")
    assert refused.code == 1 and "without coords have no patches" in refused.err
    stage = slideseek("status", "-a", archive, "--json").json["slides"][0]["engines"]["theirs"]["stages"]["select"]
    assert stage["status"] == "done" and stage["notes"] == ["imported without coords"]
    slideseek("export", "features", "--identified", "-a", archive, "-o", tmp_path / "out")
    with h5py.File(tmp_path / "out" / "a.h5") as file:
        assert "coords" not in file and np.array_equal(file["features"], bag_of(0)[0])


def test_no_featurizer_reads_pixels_at_made_up_places(tiny_slides, tmp_path, slideseek):
    config = tmp_path / "mixed.toml"
    config.write_text(
        '[[engine]]\nname = "mixed"\nselector = { use = "imported", set = "bare" }\n'
        'featurizer = "colour-texture"\nencoder = "mean"\nindex = "cosine"\n'
    )
    archive = tmp_path / "archive"
    slideseek("init", archive, "--config", config)
    slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", archive)
    (tmp_path / "bare").mkdir()
    np.save(tmp_path / "bare" / "s0.npy", np.ones((3, 4), np.float32))
    assert slideseek("import", tmp_path / "bare", "-a", archive, "--without-coords").code == 0
    built = slideseek("build", "-a", archive, "--json")
    assert "slide 's0' has none" in built.json["failures"]["s0"]["cause"]


def test_patches_of_another_tool_for_a_featurizer_of_ours(
    tiny_archive, tiny_slides, tmp_path, slideseek, write_trident
):
    bags = ours(tiny_archive)
    for slide, bag in bags.items():
        write_trident(tmp_path / "theirs" / f"{slide}.h5", np.ones((len(bag), 2), np.float32), bag.xy.astype(np.int64))
    config = tmp_path / "mixed.toml"
    config.write_text(
        '[[engine]]\nname = "mixed"\nselector = { use = "imported", set = "theirs" }\n'
        'featurizer = "colour-texture"\nencoder = "mean"\nindex = "cosine"\n'
    )
    archive = tmp_path / "mixed"
    slideseek("init", archive, "--config", config)
    slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", archive)
    assert slideseek("import", tmp_path / "theirs", "-a", archive).code == 0
    assert slideseek("build", "-a", archive).code == 0
    for slide, bag in ours(archive, "mixed").items():
        assert np.array_equal(bag.features, bags[slide].features)


def test_pixels_that_are_added_later_need_the_features_again(trident_job, theirs, tmp_path, slideseek, paint_tiny):
    archive = theirs()
    slideseek("import", trident_job, "-a", archive)
    slideseek("build", "-a", archive)
    paint_tiny(tmp_path / "a.png", 0, coarse=True)
    table = tmp_path / "one.csv"
    table.write_text("slide_id,case_id,mpp\na,p1,1.0\n")
    assert slideseek("add", tmp_path / "a.png", "--manifest", table, "-a", archive, "--json").json["updated"] == ["a"]
    assert slideseek("build", "-a", archive).code == 3
    assert slideseek("import", trident_job, "-a", archive, "--json").json["imported"] == ["a"]
    assert slideseek("build", "-a", archive).code == 0
    path = slideseek("status", "-a", archive, "--json").json["slides"][0]["path"]
    assert path.endswith("a.png"), "the slide's own file is what names it now"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing",), "is not a folder"),
        ((".",), "no feature files in"),
        (("job", "--set", "a/b"), "cannot be the name of a set"),
    ],
)
def test_wrong_arguments(trident_job, theirs, slideseek, monkeypatch, arguments, message):
    archive = theirs()
    (archive / "empty").mkdir()
    monkeypatch.chdir(archive / "empty" if arguments == (".",) else trident_job.parent)
    done = slideseek("import", *arguments, "-a", archive)
    assert done.code == 2 and message in done.err


def test_one_odd_file_does_not_decide_the_width(tmp_path, tiny_config, slideseek, write_trident, bag_of):
    for number, name in enumerate(("a", "b", "c", "d")):
        write_trident(tmp_path / "features_uni_v1" / f"{name}.h5", *bag_of(number, width=7 if name == "a" else 24))
    assert slideseek("init", tmp_path / "archive", "--config", tiny_config).code == 0
    done = slideseek("import", tmp_path / "features_uni_v1", "-a", tmp_path / "archive", "--json")
    assert done.json["imported"] == ["b", "c", "d"] and done.json["width"] == 24
    assert [one["subject"] for one in done.json["problems"]] == ["a.h5"]


def test_a_slide_with_features_alone_says_so_to_an_engine_that_reads_pixels(
    tmp_path, theirs, slideseek, write_trident, bag_of, tiny_config
):
    archive = theirs(width=24)
    write_trident(tmp_path / "features_uni_v1" / "a.h5", *bag_of(0))
    assert slideseek("import", tmp_path / "features_uni_v1", "-a", archive).code == 0
    with (archive / "slideseek.toml").open("a") as config:
        config.write(tiny_config.read_text())
    built = slideseek("build", "-a", archive)
    assert built.code == 3 and "has imported features and no slide file" in built.err
    looked = slideseek("inspect", tmp_path / "features_uni_v1" / "a.h5")
    assert "a.h5 is a feature file, not a slide" in looked.err


def test_a_region_of_imported_features(tmp_path, theirs, slideseek, write_trident, bag_of):
    archive = theirs(width=24)
    for number, name in enumerate("abc"):
        write_trident(tmp_path / "features_uni_v1" / f"{name}.h5", *bag_of(number))
    assert slideseek("import", tmp_path / "features_uni_v1", "-a", archive).code == 0
    assert slideseek("build", "-a", archive).code == 0
    found = slideseek("search", "a", "--region", "0,0,128,64", "-a", archive, "--json").json
    assert "2 imported patches have their centre in the region" in found["notes"]
    assert {hit["slide"]["id"] for hit in found["hits"]} == {"b", "c"}
    beyond = slideseek("search", "a", "--region", "9000,9000,10,10", "-a", archive)
    assert beyond.code == 1 and "no imported patch of slide 'a'" in beyond.err and "x 0 to 256" in beyond.err
    paint = tmp_path / "features_uni_v1" / "b.h5"
    other = slideseek("search", paint, "--region", "0,0,64,64", "-a", archive)
    assert other.code == 0, "the file is slide b of the archive"


def test_feature_suffixes_are_those_that_can_be_read():
    from slideseek.slides.slide_errors import FEATURE_SUFFIXES
    from slideseek_apps.interchange.feature_readers import READERS

    assert set(READERS) == FEATURE_SUFFIXES
