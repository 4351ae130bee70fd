"""What is exported can be used by other tools, and comes back bit by bit."""

import csv
import json

import h5py
import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import unpack_patches
from slideseek.indexing.live_index import open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import load_registry
from slideseek.types import Code, CodeSpec
from slideseek_apps.bench.ranked_lists import read_hits
from slideseek_apps.interchange.export_codes import CodeTable


def results(root, name):
    """Return features, places and patches of every slide."""
    with Archive(root) as archive:
        engine = open_engine(archive, archive.config.engine(name), load_registry())
        stages = StageCache(archive, print)
        found = {}
        for slide, key in stages.ready(engine):
            bag = archive.bag(key, slide.record)
            payload = archive.catalog.payload(stages.key(engine, "select", slide))
            assert payload is not None
            patches = unpack_patches(payload, slide.id)
            found[slide.id] = (
                *(bag.features, bag.xy, patches.xy, patches.mpp),
                *(np.array(patches.size), np.array(payload.meta["slide_mpp"])),
            )
        return found


def identical(one, other):
    return one.keys() == other.keys() and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for slide in one
        for a, b in zip(one[slide], other[slide])
    )


def test_exported_features_come_back_bit_by_bit(tiny_archive, tmp_path, theirs, slideseek, codes_of):
    out = tmp_path / "features_uni_v1"
    done = slideseek("export", "features", "--identified", "-a", tiny_archive, "--engine", "bars", "-o", out, "--json")
    assert done.code == 0 and len(done.json["files"]) == 8 and done.json["slides"] == [f"s{n}" for n in range(8)]
    archive = theirs(width=256)
    assert slideseek("import", out, "-a", archive).code == 0
    assert slideseek("build", "-a", archive).code == 0
    assert identical(results(archive, "theirs"), results(tiny_archive, "bars"))
    here, there = codes_of(archive, "theirs"), codes_of(tiny_archive, "bars")
    assert here.keys() == there.keys() and all(np.array_equal(here[slide], there[slide]) for slide in here)
    again = tmp_path / "again"
    assert slideseek("export", "features", "--identified", "-a", archive, "-o", again).code == 0
    with h5py.File(out / "s0.h5") as first, h5py.File(again / "s0.h5") as second:
        assert dict(first["coords"].attrs) == dict(second["coords"].attrs)


def test_the_layout_of_trident(tiny_archive, tmp_path, slideseek):
    slideseek("export", "features", "--identified", "s3", "-a", tiny_archive, "-o", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["s3.h5"]
    with h5py.File(tmp_path / "out" / "s3.h5") as file:
        features, coords = file["features"], file["coords"]
        assert features.dtype == np.float32 and features.shape == (len(coords), 256)
        assert coords.dtype == np.int64 and coords.shape[1] == 2
        assert dict(coords.attrs) == {
            "name": "s3",
            "patch_size": 64,
            "patch_size_level0": 64,
            "level0_magnification": 10,
            "target_magnification": 10,
            "level0_mpp": 1.0,
        }
        assert coords.attrs["level0_magnification"].dtype.kind == "i"
        assert dict(features.attrs) == {"name": "s3", "encoder": "colour-texture"}


def test_odd_names_come_back(tmp_path, theirs, slideseek, write_trident, bag_of):
    write_trident(tmp_path / "features_uni_v1" / "x.h5", *bag_of(0))
    table = tmp_path / "m.csv"
    table.write_text('slide_id,path,case_id\n"a/b 50%",x.svs,p\n')
    one, two = theirs(), theirs(name="other")
    slideseek("import", tmp_path / "features_uni_v1", "-a", one, "--manifest", table)
    assert slideseek("export", "features", "--identified", "-a", one, "-o", tmp_path / "out").code == 0
    done = slideseek("import", tmp_path / "out", "-a", two, "--set", "uni_v1", "--json")
    assert done.json["imported"] == ["a/b 50%"]


def test_patches_are_rectangles_in_level_0_pixels(tiny_archive, tmp_path, slideseek):
    done = slideseek("export", "patches", "--identified", "s0", "s1", "-a", tiny_archive, "-o", tmp_path / "out")
    assert done.code == 0 and "patches of 2 slides" in done.out
    shapes = json.loads((tmp_path / "out" / "s0.geojson").read_text())
    xy = results(tiny_archive, "bars")["s0"][2]
    assert shapes["type"] == "FeatureCollection" and len(shapes["features"]) == len(xy)
    for feature, (x, y) in zip(shapes["features"], xy):
        (ring,) = feature["geometry"]["coordinates"]
        assert ring == [[x, y], [x + 64, y], [x + 64, y + 64], [x, y + 64], [x, y]]
        assert feature["geometry"]["type"] == "Polygon" and feature["properties"]["objectType"] == "tile"


def test_codes(tiny_archive, tmp_path, slideseek, codes_of):
    for engine, kind, width in (("bars", "bits", 255), ("mean", "float", 256)):
        slideseek("export", "codes", "--identified", "-a", tiny_archive, "--engine", engine, "-o", tmp_path / engine)
        with np.load(tmp_path / engine / "codes.npz", allow_pickle=False) as file:
            assert (str(file["kind"]), int(file["width"])) == (kind, width)
            rows, starts = file["rows"], file["starts"]
            codes = {str(i): rows[starts[n] : starts[n + 1]] for n, i in enumerate(file["ids"])}
            assert set(file["spaces"]) == {""}
        stored = codes_of(tiny_archive, engine)
        assert codes.keys() == stored.keys() and all(np.array_equal(codes[i], stored[i]) for i in codes)


def test_sparse_codes_are_a_csr_matrix():
    import scipy.sparse

    rows = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [5, 0, 0, 0]], np.float32)
    table = CodeTable(CodeSpec("sparse", 4, many=True))
    table.add(Code("a", rows[:2], "lung"))
    table.add(Code("b", rows[2:], "colon"))
    arrays = table.arrays()
    matrix = scipy.sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), tuple(arrays["shape"]))
    assert np.array_equal(matrix.toarray(), rows)
    assert arrays["starts"].tolist() == [0, 2, 3] and arrays["spaces"].tolist() == ["lung", "colon"]


def test_the_table_can_be_a_manifest(tiny_archive, tmp_path, slideseek, tiny_config):
    slideseek("export", "table", "--identified", "-a", tiny_archive, "-o", tmp_path / "out")
    with (tmp_path / "out" / "slides.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["slide_id"] for row in rows] == [f"s{n}" for n in range(8)]
    known = ("case_id", "primary_site", "diagnosis", "center", "mpp", "age", "state of bars", "state of mean", "cause")
    assert [rows[5][name] for name in known] == ["p5", "lung", "fine", "C2", "1.0", "55", "done", "done", ""]
    assert rows[5]["path"].endswith("slides/s5.png")
    other = tmp_path / "other"
    slideseek("init", other, "--config", tiny_config)
    added = slideseek("add", "--manifest", tmp_path / "out" / "slides.csv", "-a", other, "--json").json
    assert len(added["added"]) == 8 and not added["problems"]
    slideseek("export", "table", "--identified", "s1", "-a", tiny_archive, "--engine", "mean", "-o", tmp_path / "one")
    assert "state of bars" not in (tmp_path / "one" / "slides.csv").read_text()


@pytest.mark.parametrize("what", ["features", "patches", "codes", "table", "pseudonyms"])
def test_nothing_is_overwritten_unasked(tiny_archive, tmp_path, slideseek, what):
    out = tmp_path / "out"
    assert slideseek("export", what, "--identified", "-a", tiny_archive, "-o", out).code == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    first = min(before)
    first.write_bytes(b"mine")
    done = slideseek("export", what, "--identified", "-a", tiny_archive, "-o", out)
    assert done.code == 2 and "already exists" in done.err and "--force" in done.err
    assert first.read_bytes() == b"mine"
    assert slideseek("export", what, "--identified", "-a", tiny_archive, "-o", out, "--force").code == 0
    assert first.read_bytes() != b"mine" and set(out.iterdir()) == set(before), "no file is left over"


def test_slides_without_results(tiny_archive, tmp_path, slideseek, paint_tiny):
    paint_tiny(tmp_path / "new.png", 5, coarse=True)
    slideseek("add", tmp_path / "new.png", "-a", tiny_archive, "--mpp", "1")
    for what in ("features", "patches", "codes"):
        everything = slideseek("export", what, "--identified", "-a", tiny_archive, "-o", tmp_path / what, "--json")
        assert everything.code == 0 and len(everything.json["slides"]) == 8
        assert "1 slide(s) have no" in everything.json["notes"][0]
        named = slideseek("export", what, "--identified", "new", "s0", "-a", tiny_archive, "-o", tmp_path / f"{what}2")
        assert named.code == 3 and "failed  new: it has no" in named.err and "slideseek build" in named.err
        alone = slideseek("export", what, "--identified", "new", "-a", tiny_archive, "-o", tmp_path / f"{what}3")
        assert alone.code == 1 and "no requested slide has" in alone.err


def test_damaged_features_are_not_exported(tiny_archive, tmp_path, slideseek):
    (folder,) = (tiny_archive / "features").iterdir()
    content = bytearray((folder / "s0.h5").read_bytes())
    content[-1] ^= 1
    (folder / "s0.h5").write_bytes(content)
    done = slideseek("export", "features", "--identified", "-a", tiny_archive, "-o", tmp_path / "out")
    assert done.code == 3 and "failed  s0: its features are missing or damaged" in done.err
    assert len(list((tmp_path / "out").iterdir())) == 7


def test_wrong_arguments(tiny_archive, tmp_path, slideseek):
    assert (
        "did you mean 's1'"
        in slideseek("export", "codes", "--identified", "s1x", "-a", tiny_archive, "-o", tmp_path / "x").err
    )
    assert (
        "no engine named"
        in slideseek("export", "table", "--identified", "--engine", "zzz", "-a", tiny_archive, "-o", tmp_path / "x").err
    )
    (tmp_path / "file").write_text("")
    done = slideseek("export", "codes", "--identified", "-a", tiny_archive, "-o", tmp_path / "file")
    assert done.code == 2 and "is not a folder" in done.err
    assert not (tmp_path / "x").exists()


def test_hits_are_ranked_lists_that_can_be_scored(tiny_archive, tmp_path, slideseek):
    done = slideseek(
        "export", "hits", "--identified", "-a", tiny_archive, "--engine", "mean", "-o", tmp_path, "-k", "3"
    )
    assert done.code == 0, done.err
    lists = {query.query_id: query for query in read_hits(tmp_path / "hits.csv")}
    answer = slideseek("search", "s0", "-a", tiny_archive, "--engine", "mean", "-k", "3", "--json").json
    assert [(hit.slide_id, hit.distance) for hit in lists["s0"].hits] == [
        (hit["slide"]["id"], hit["distance"]) for hit in answer["hits"]
    ]
    assert slideseek("bench", "score", tmp_path / "hits.csv", "--json").json["queries"] == len(lists) == 8
    wrong = slideseek("export", "hits", "--identified", "-a", tiny_archive, "-o", tmp_path, "--format", "npz")
    assert wrong.code == 2 and "--format is one of: csv, parquet" in wrong.err


def test_parquet_has_what_csv_has(tiny_archive, tmp_path, slideseek, codes_of):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'interchange' is not installed")
    for what in ("hits", "table"):
        for form in ("csv", "parquet"):
            args = (
                "export",
                what,
                "--identified",
                "-a",
                tiny_archive,
                "--engine",
                "mean",
                "-o",
                tmp_path,
                "--format",
                form,
            )
            assert slideseek(*args).code == 0
    for name in ("hits", "slides"):
        with (tmp_path / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
            plain = list(csv.DictReader(stream))
        rows = parquet.read_table(tmp_path / f"{name}.parquet").to_pylist()
        assert [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows] == plain
    slideseek("export", "codes", "--identified", "-a", tiny_archive, "-o", tmp_path, "--format", "parquet")
    table = parquet.read_table(tmp_path / "codes.parquet").to_pylist()
    for slide, rows in codes_of(tiny_archive, "bars").items():
        assert [row["code"] for row in table if row["slide_id"] == slide] == rows.tolist()


def test_anndata_has_slides_codes_and_hits(tiny_archive, tmp_path, slideseek, codes_of):
    anndata = pytest.importorskip("anndata", reason="the extra 'interchange' is not installed")
    args = ("export", "codes", "--identified", "-a", tiny_archive, "-o", tmp_path, "--format", "h5ad", "-k", "3")
    several = slideseek(*args, "--engine", "bars")
    assert several.code == 2 and "several codes per slide" in several.err and "as npz" in several.err
    assert slideseek(*args, "--engine", "mean").code == 0
    table = anndata.read_h5ad(tmp_path / "slides.h5ad")
    codes = codes_of(tiny_archive, "mean")
    assert list(table.obs_names) == sorted(codes) and table.uns["slideseek"]["engine"] == "mean"
    assert all(np.array_equal(table.obsm["codes"][i], codes[name][0]) for i, name in enumerate(table.obs_names))
    answer = slideseek("search", "s0", "-a", tiny_archive, "--engine", "mean", "-k", "3", "--json").json["hits"]
    row = table.obs_names.get_loc("s0")
    assert table.uns["hits"]["ids"][row].tolist() == [hit["slide"]["id"] for hit in answer]
    for hit in answer:
        column = table.obs_names.get_loc(hit["slide"]["id"])
        assert table.obsp["distances"][row, column] == hit["distance"]
    assert set(table.obs["site"]) == {"colon", "lung"}
