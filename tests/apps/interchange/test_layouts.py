"""Features in the layouts of other tools: right positions and values, and a search finds the nearest slide."""

import importlib.util
import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.errors import SlideError, UsageError
from slideseek.indexing.live_index import open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import load_registry
from slideseek_apps.interchange.feature_folders import find_feature_set
from slideseek_apps.interchange.feature_readers import read_entry, read_feature_file

# Test modules are imported one by one, without a package, so a module that is not a test is loaded by its path.
SPEC = importlib.util.spec_from_file_location("foreign_layouts", Path(__file__).with_name("foreign_layouts.py"))
assert SPEC is not None and SPEC.loader is not None
foreign = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(foreign)

needs_zarr = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("zarr", "anndata", "pyarrow")),
    reason="the extra 'interchange' is not installed",
)
LAYOUTS = [
    (foreign.stamp, "uni2"),
    (foreign.atlaspatch, "uni_v2"),
    (foreign.slide2vec, "virchow2"),
    (foreign.slide2vec_pt, "virchow2"),
    pytest.param(foreign.lazyslide, "uni", marks=needs_zarr),
    pytest.param(foreign.tiatoolbox, "job", marks=needs_zarr),
]
VECTORS = [
    (foreign.trident_vectors, None, "titan"),
    (foreign.stamp_vectors, None, "chief"),
    (foreign.atlaspatch, "titan", "titan"),
    pytest.param(foreign.lazyslide, "uni-titan", "uni-titan", marks=needs_zarr),
]


@pytest.fixture
def bags(bag_of):
    """Slides a, b and c; b is a with a little noise, so it is the nearest to a."""
    found = {name: bag_of(seed) for name, seed in (("a", 0), ("c", 2))}
    features, xy = found["a"]
    noise = np.random.default_rng(9).normal(scale=0.05, size=features.shape).astype(np.float32)
    found["b"] = (features + noise, xy)
    return {name: (f.astype(np.float16).astype(np.float32), xy) for name, (f, xy) in sorted(found.items())}


@pytest.fixture
def listed(tmp_path):
    """A manifest of the slides with their resolution."""
    path = tmp_path / "slides.csv"
    rows = [f"{name},p-{name},lung,{label},{foreign.MPP}" for name, label in zip("abc", ("x", "x", "y"))]
    path.write_text("\n".join(["slide_id,case_id,primary_site,diagnosis,mpp", *rows]) + "\n")
    return path


def imported(slideseek, tmp_path, folder, listed, *options):
    """Import a folder into a new archive, with the engine that is printed, built; return it and what was said."""
    archive = tmp_path / "archive"
    assert slideseek("init", archive).code == 0
    done = slideseek("import", folder, "-a", archive, "--manifest", listed, *options, "--json")
    assert done.code == 0, done.err + done.out
    (archive / "slideseek.toml").write_text(done.json["engine"])
    built = slideseek("build", "-a", archive)
    assert built.code == 0, built.err
    return archive, done.json


def stored(root):
    with Archive(root) as archive:
        engine = open_engine(archive, archive.config.engine(), load_registry())
        ready = StageCache(archive, print).ready(engine)
        return {slide.id: archive.bag(key, slide.record) for slide, key in ready}


@pytest.mark.parametrize(("write", "name"), LAYOUTS)
def test_patches_of_every_layout(tmp_path, slideseek, bags, listed, write, name):
    folder = write(tmp_path / "job", bags)
    options = ("--patch-mpp", "0.5") if write is foreign.tiatoolbox else ()
    archive, said = imported(slideseek, tmp_path, folder, listed, *options)
    assert (said["set"], said["imported"], said["problems"], said["whole"]) == (name, ["a", "b", "c"], [], False)
    for slide, bag in stored(archive).items():
        features, xy = bags[slide]
        order = np.lexsort((bag.xy[:, 0], bag.xy[:, 1])), np.lexsort((xy[:, 0], xy[:, 1]))
        assert np.array_equal(bag.xy[order[0]], xy[order[1]])
        assert np.array_equal(bag.features[order[0]], features[order[1]])
        assert bag.mpp == foreign.MPP and set(bag.sides.tolist()) == {64.0}, "32 pixels at 0.5 µm are 64 at level 0"
    hits = slideseek("search", "a", "-a", archive, "--json").json["hits"]
    assert [hit["slide"]["id"] for hit in hits] == ["b", "c"]


@pytest.mark.parametrize(("write", "encoder", "name"), VECTORS)
def test_vectors_of_whole_slides(tmp_path, slideseek, bags, listed, codes_of, write, encoder, name):
    folder = write(tmp_path / "job", bags)
    archive, said = imported(slideseek, tmp_path, folder, listed, *(("--encoder", encoder) if encoder else ()))
    assert (said["set"], said["imported"], said["whole"]) == (name, ["a", "b", "c"], True)
    assert 'encoder    = { use = "imported" }' in said["engine"]
    codes = codes_of(archive, name)
    assert all(np.array_equal(codes[slide][0], features.mean(axis=0)) for slide, (features, _) in bags.items())
    hits = slideseek("search", "a", "-a", archive, "--json").json["hits"]
    assert [hit["slide"]["id"] for hit in hits] == ["b", "c"] and hits[0]["distance"] < 0.1 < hits[1]["distance"]
    refused = slideseek("export", "patches", "--identified", "-a", archive, "-o", tmp_path / "out")
    assert refused.code == 1 and "no slide has patches" in refused.err
    health = slideseek("doctor", archive, "--json").json
    assert not [found for found in health["findings"] if found["state"] == "fail" and found["area"] == "archive"], (
        "nothing is missing"
    )


def test_vectors_side_by_side_are_joined_and_reranked(tmp_path, slideseek, bags, listed, codes_of):
    one = foreign.trident_vectors(tmp_path / "one", bags)
    other = foreign.stamp_vectors(tmp_path / "other", {name: bag for name, bag in bags.items() if name != "c"})
    many = foreign.stamp_vectors(tmp_path / "many", {**bags, "d": bags["a"]})
    archive = tmp_path / "archive"
    slideseek("init", archive)
    unnamed = slideseek("import", one, other, "-a", archive)
    assert unnamed.code == 2 and "pass --set NAME" in unnamed.err
    few = slideseek("import", one, other, "-a", archive, "--set", "few", "--manifest", listed, "--json").json
    assert few["imported"] == ["a", "b"] and any("1 slide(s) lack a vector" in note for note in few["notes"])
    both = slideseek("import", one, many, "-a", archive, "--set", "both", "--manifest", listed, "--json").json
    assert (both["imported"], both["width"], both["parts"]) == (["a", "b", "c"], 48, [24, 24])
    config = both["engine"] + 'rerank     = { use = "set-cosine", depth = 2 }\n'
    (archive / "slideseek.toml").write_text(config)
    built = slideseek("build", "-a", archive)
    assert built.code == 0, built.err
    assert all(rows.shape == (1, 48) for rows in codes_of(archive, "both").values())
    hits = slideseek("search", "a", "-a", archive, "--json").json["hits"]
    assert [hit["slide"]["id"] for hit in hits] == ["b", "c"]
    patches = foreign.stamp(tmp_path / "patches", bags)
    wrong = slideseek("import", one, patches, "-a", archive, "--set", "wrong")
    assert wrong.code == 2 and "set 'wrong' has features of patches" in wrong.err


def test_a_benchmark_takes_them_too(tmp_path, bags, listed):
    from slideseek_apps.bench.datasets.feature_folder import FeatureFolder

    folder = foreign.stamp(tmp_path / "job", bags) / "uni2-1f2e3d4c"
    assert FeatureFolder.recognises(folder)
    assert FeatureFolder.recognises(foreign.trident_vectors(tmp_path / "vectors", bags))
    source = FeatureFolder(folder, listed).load(load_registry())
    assert source.bags["a"].features.shape == (12, 24) and not source.problems


def test_vectors_are_compared_in_a_benchmark(tmp_path, slideseek):
    """Vectors of two classes, a patient per slide: the encoder `imported` and bits made of it both tell them apart."""
    rng = np.random.default_rng(3)
    rows = ["slide_id,case_id,primary_site,diagnosis"]
    bags = {}
    for number in range(12):
        move = np.eye(8)[number % 2] * 6
        bags[f"s{number:02d}"] = ((rng.normal(size=(3, 8)) + move).astype(np.float32), np.zeros((3, 2), np.int64))
        rows.append(f"s{number:02d},p{number},lung,{'xy'[number % 2]}")
    folder = foreign.trident_vectors(tmp_path / "job", bags) / "20x_512px_0px_overlap" / "slide_features_titan"
    (tmp_path / "slides.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "bench.toml").write_text(
        '[[protocol]]\nname = "vertical"\n[[engine]]\nname = "titan"\nencoder = "imported"\n'
        '[[engine]]\nname = "half"\nencoder = { use = "imported", length = 4 }\n'
    )
    manifest = f"dataset.manifest={tmp_path / 'slides.csv'}"
    done = slideseek(
        *(
            "bench",
            "run",
            tmp_path / "bench.toml",
            "--data",
            folder,
            "--set",
            manifest,
            "-o",
            tmp_path / "out",
            "--json",
        )
    )
    assert done.code == 0, done.err
    assert slideseek("bench", "leaderboard", tmp_path / "out", "-o", tmp_path / "page.html").code == 0
    report = slideseek("bench", "report", tmp_path / "out", "--format", "json").json
    overview = next(table for table in report["sections"][0]["tables"] if table["key"] == "overview")
    assert {row["engine"] for row in overview["rows"]} == {"titan", "half"}


def test_exported_codes_come_back_exactly(tmp_path, slideseek, bags, listed, codes_of):
    archive, _ = imported(slideseek, tmp_path, foreign.trident_vectors(tmp_path / "job", bags), listed)
    assert slideseek("export", "codes", "--identified", "-a", archive, "-o", tmp_path / "out").code == 0
    again = slideseek("import", tmp_path / "out" / "codes.npz", "-a", archive, "--set", "again", "--json")
    assert again.code == 0, again.err
    with (archive / "slideseek.toml").open("a") as config:
        config.write("\n" + again.json["engine"])
    assert slideseek("build", "-a", archive).code == 0
    before, after = codes_of(archive, "titan"), codes_of(archive, "again")
    assert before.keys() == after.keys() and all(np.array_equal(before[name], after[name]) for name in before)


def test_exported_vectors_come_back_as_vectors(tmp_path, slideseek, bags, listed, codes_of):
    archive, _ = imported(slideseek, tmp_path, foreign.trident_vectors(tmp_path / "job", bags), listed)
    assert slideseek("export", "features", "--identified", "-a", archive, "-o", tmp_path / "out").code == 0
    with h5py.File(tmp_path / "out" / "a.h5") as file:
        assert np.array_equal(file["features"][()], bags["a"][0].mean(axis=0)), "(width,), as TRIDENT writes it"
    again = slideseek("import", tmp_path / "out", "-a", archive, "--set", "again", "--json")
    assert again.code == 0 and again.json["whole"], again.err
    with (archive / "slideseek.toml").open("a") as config:
        config.write("\n" + again.json["engine"])
    assert slideseek("build", "-a", archive).code == 0
    before, after = codes_of(archive, "titan"), codes_of(archive, "again")
    assert before.keys() == after.keys() and all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("name", ["slides.h5ad", "codes.parquet", "hits.csv"])
def test_a_file_without_features_says_what_comes_back(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match="is not a file of features") as caught:
        find_feature_set(tmp_path / name)
    assert "codes.npz" in caught.value.fix


def test_several_encoders_in_one_folder(tmp_path, bags):
    folder = foreign.atlaspatch(tmp_path / "job", bags)
    found = find_feature_set(folder)
    assert found.name == "uni_v2" and "--encoder titan" in found.notes[0]
    for path in (folder / "patches").iterdir():
        with h5py.File(path, "a") as file:
            file["features/conch"] = np.ones((12, 8), np.float32)
    with pytest.raises(UsageError, match=r"holds 2 sets of features: patches \(conch\), patches \(uni_v2\).*--encoder"):
        find_feature_set(folder)
    assert read_entry(find_feature_set(folder, encoder="conch").files[0]).features.shape == (12, 8)
    with pytest.raises(UsageError, match="no features by 'uni': --encoder is one of: conch, uni_v2, titan"):
        find_feature_set(folder, encoder="uni")


def test_positions_need_a_resolution(tmp_path, slideseek, bags):
    archive = tmp_path / "archive"
    slideseek("init", archive)
    unknown = slideseek("import", foreign.stamp(tmp_path / "stamp", bags), "-a", archive)
    assert unknown.code == 3 and unknown.err.count("failed") == 3
    assert "a.h5: its positions are not in level-0 pixels, and the slide's resolution is unknown" in unknown.err
    assert "state it in an `mpp` column of --manifest, or add the slide file first" in unknown.err


@needs_zarr
def test_tiatoolbox_does_not_state_the_resolution(tmp_path, slideseek, bags, listed):
    archive = tmp_path / "archive"
    slideseek("init", archive)
    folder = foreign.tiatoolbox(tmp_path / "job", bags)
    unknown = slideseek("import", folder, "-a", archive, "--manifest", listed)
    assert unknown.code == 3 and "pass --patch-mpp with the µm per pixel that its tool was given" in unknown.err


def stamp_pixels(path):
    with h5py.File(path, "w") as file:
        file["feats"], file["coords"] = np.ones((2, 4), np.float16), np.zeros((2, 2))
        file.attrs["unit"] = "furlong"


def stamp_no_side(path):
    with h5py.File(path, "w") as file:
        file["feats"], file["coords"] = np.ones((2, 4), np.float16), np.zeros((2, 2))
        file.attrs["unit"] = "um"


def atlaspatch_link(path):
    with h5py.File(path, "w") as file:
        file["features/uni"] = h5py.ExternalLink("/etc/passwd", "/x")
        file["coords"] = np.zeros((2, 5), np.int32)


def atlaspatch_coords(path):
    with h5py.File(path, "w") as file:
        file["features/uni"], file["coords"] = np.ones((2, 4), np.float32), np.zeros((3, 5), np.int32)


@pytest.mark.parametrize(
    ("write", "cause"),
    [
        (stamp_pixels, "its 'coords' have the unit 'furlong', not 'um'"),
        (stamp_no_side, "does not state the side of a tile"),
        (atlaspatch_link, "'uni' is a link, not a dataset in the file itself"),
        (atlaspatch_coords, r"'coords' has shape \(3, 5\), not \(2, 5\)"),
    ],
)
def test_wrong_hdf5(tmp_path, write, cause):
    write(tmp_path / "a.h5")
    with pytest.raises(SlideError, match=cause):
        read_feature_file(tmp_path / "a.h5")


def test_wrong_slide2vec(tmp_path, bags):
    job = foreign.slide2vec(tmp_path, {"a": bags["a"]})
    where = job / "tiles" / "a.coordinates.npz"
    described = where.with_name("a.coordinates.meta.json")
    text = json.loads(described.read_text())
    described.write_text(json.dumps(text | {"artifact": {"coordinate_space": "um"}}))
    with pytest.raises(SlideError, match=r"positions in a\.coordinates\.npz are in 'um', not 'level0_px'"):
        read_feature_file(job / "tile_embeddings" / "a.npz")
    described.write_text(json.dumps(text))
    np.savez(job / "tile_embeddings" / "a.npz", features=bags["a"][0], tile_index=np.arange(12) + 5)
    with pytest.raises(SlideError, match="'tile_index' does not number the tiles"):
        read_feature_file(job / "tile_embeddings" / "a.npz")
    np.savez(job / "tile_embeddings" / "a.npz", features=bags["a"][0][:5])
    with pytest.raises(SlideError, match=r"it has 5 tiles, a\.coordinates\.npz has 12"):
        read_feature_file(job / "tile_embeddings" / "a.npz")
    np.savez(where, y=np.zeros(5))
    with pytest.raises(SlideError, match=r"a\.coordinates\.npz has no array 'x'"):
        read_feature_file(job / "tile_embeddings" / "a.npz")


@needs_zarr
def test_wrong_stores(tmp_path, bags):
    folder = foreign.lazyslide(tmp_path, {"a": bags["a"]})
    store = folder / "a.zarr"
    part = store / "tables" / "uni_tiles" / "X" / "c" / "0" / "0"
    kept = part.read_bytes()
    part.unlink()
    with pytest.raises(SlideError, match="'X' is incomplete: parts of it were never written"):
        read_feature_file(store, find_feature_set(folder).files[0].part)
    part.write_bytes(kept)
    described = store / "tables" / "uni_tiles" / "X" / "zarr.json"
    text = json.loads(described.read_text())
    described.write_text(json.dumps(text | {"shape": [1 << 40, 24]}))
    with pytest.raises(SlideError, match="'X' claims"):
        read_feature_file(store, find_feature_set(folder).files[0].part)
    described.write_text(json.dumps(text))
    (store / "outside").symlink_to(tmp_path.parent)
    with pytest.raises(SlideError, match="outside is a link to a place outside of the store"):
        read_feature_file(store)


@needs_zarr
def test_a_codec_that_could_run_code_is_refused(tmp_path):
    import zarr

    store = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    store.create_array("features", data=np.ones((2, 4), np.float32))
    described = tmp_path / "a.zarr" / "features" / ".zarray"
    text = json.loads(described.read_text())
    described.write_text(json.dumps(text | {"filters": [{"id": "pickle", "protocol": 5}]}))
    shutil.rmtree(tmp_path / "a.zarr" / ".zmetadata", ignore_errors=True)
    with pytest.raises(SlideError, match="pickle"):  # the library refuses this one itself
        read_feature_file(tmp_path / "a.zarr")
    described.write_text(
        json.dumps(text | {"filters": [{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}]})
    )
    with pytest.raises(SlideError, match="packed with 'astype', which is not read"):
        read_feature_file(tmp_path / "a.zarr")
