"""The networks over sets as a user meets them: imported features, build, search; what happens without labels."""

import csv
import json

import h5py
import numpy as np
import pytest

WIDTH = 8
SMALL = "hidden = [8], epochs = 20"


def make(tmp_path, slideseek, encoder, index, labels="xy"):
    """An archive of twelve slides, by their features; a slide's label shows in a third of its patches."""
    rng, rows = np.random.default_rng(0), []
    (tmp_path / "features").mkdir()
    for i in range(12):
        features = rng.normal(size=(12, WIDTH)).astype(np.float32)
        features[: 4 * (i % 2), 0] += 6
        with h5py.File(tmp_path / "features" / f"s{i}.h5", "w") as file:
            file["features"] = features
            file.create_dataset("coords", data=np.arange(24).reshape(12, 2) * 100).attrs["patch_size_level0"] = 100
        rows.append([f"s{i}", f"p{i}", "lung", labels[i % 2] if labels else ""])
    with (tmp_path / "slides.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["slide_id", "patient", "site", "label"], *rows])
    archive = tmp_path / "archive"
    assert slideseek("init", archive).code == 0
    done = slideseek("import", tmp_path / "features", "-a", archive, "--manifest", tmp_path / "slides.csv")
    assert done.code == 0, done.err
    (archive / "slideseek.toml").write_text(
        f"""
[[engine]]
name       = "set"
selector   = {{ use = "imported", set = "features" }}
featurizer = {{ use = "imported", set = "features", width = {WIDTH} }}
encoder    = {encoder}
index      = {{ use = "{index}" }}
"""
    )
    return archive


@pytest.mark.parametrize(
    ("encoder", "index"),
    [
        (f'{{ use = "attention-mil", {SMALL} }}', "cosine"),
        (f'{{ use = "projected", bits = 128, of = {{ use = "memory-set", {SMALL} }} }}', "hamming"),
    ],
)
def test_build_and_search(tmp_path, slideseek, encoder, index):
    archive = make(tmp_path, slideseek, encoder, index)
    built = slideseek("build", "-a", archive)
    assert built.code == 0, built.err
    found = slideseek("search", "s1", "-a", archive, "-k", "3", "--json")
    assert found.code == 0, found.err
    assert {hit["slide"]["label"] for hit in json.loads(found.out)["hits"]} == {"y"}


def test_without_labels_the_build_says_what_is_missing(tmp_path, slideseek):
    archive = make(tmp_path, slideseek, f'{{ use = "deep-sets", {SMALL} }}', "cosine", labels="")
    built = slideseek("build", "-a", archive)
    assert built.code != 0
    assert "deep-sets learns to tell slides apart" in built.err and "Traceback" not in built.err
