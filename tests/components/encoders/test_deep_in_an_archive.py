"""The deep encoders as a user meets them: imported features, build, interrupt, go on, search."""

import csv
import json

import h5py
import numpy as np
import pytest

from slideseek_components.encoders.deep.trainer import Trainer

WIDTH = 8
SMALL = "hidden = [8], latent = 3, epochs = 4, batch_size = 16, standardise = true"


def configure(archive, encoder):
    (archive / "slideseek.toml").write_text(
        f"""
[[engine]]
name       = "deep"
selector   = {{ use = "imported", set = "features" }}
featurizer = {{ use = "imported", set = "features", width = {WIDTH} }}
encoder    = {encoder}
index      = {{ use = "hamming" }}
"""
    )


@pytest.fixture
def archive(tmp_path, slideseek):
    """Eight slides of four patients, two sites and two labels, by their features."""
    rng, rows = np.random.default_rng(0), []
    (tmp_path / "features").mkdir()
    for i in range(8):
        site, label = ("brain", "lung")[i % 2], "xy"[i // 2 % 2]
        with h5py.File(tmp_path / "features" / f"s{i}.h5", "w") as file:
            file["features"] = rng.normal(i % 2 + 3 * (i // 2 % 2), 1, size=(10, WIDTH)).astype(np.float32)
            file.create_dataset("coords", data=np.arange(20).reshape(10, 2) * 100).attrs["patch_size_level0"] = 100
        rows.append([f"s{i}", f"p{i}", site, label])
    with (tmp_path / "slides.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["slide_id", "patient", "site", "label"], *rows])
    archive = tmp_path / "archive"
    assert slideseek("init", archive).code == 0
    done = slideseek("import", tmp_path / "features", "-a", archive, "--manifest", tmp_path / "slides.csv")
    assert done.code == 0, done.err
    return archive


def model_files(archive):
    (folder,) = (archive / "models").iterdir()
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("preset", ["paper", "best"])
def test_an_interrupted_build_goes_on_and_comes_out_the_same(archive, slideseek, monkeypatch, preset):
    configure(archive, f'{{ use = "deep-sbfv", preset = "{preset}", bits = 40, {SMALL} }}')
    epoch = Trainer._epoch

    def stop(self, number, state):
        if number == 2:
            raise KeyboardInterrupt
        return epoch(self, number, state)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_epoch", stop)
        assert slideseek("build", "-a", archive).code == 130
    assert not (archive / "models").exists() and len(list((archive / "training").iterdir())) == 1
    done = slideseek("build", "-a", archive)
    assert done.code == 0, done.err
    printed = done.out + done.err
    assert "epoch 2/4" not in printed and "epoch 3/4" in printed and "gradient_l1" in printed
    assert not list((archive / "training").iterdir())
    resumed = model_files(archive)
    log = list(csv.DictReader(resumed["training.csv"].decode().splitlines()))
    assert [row["epoch"] for row in log] == ["1.0", "2.0", "3.0", "4.0"]
    assert slideseek("build", "-a", archive, "--refit").code == 0
    assert model_files(archive) == resumed


def test_conditioned_codes_stay_within_their_site_and_a_search_says_so(archive, slideseek):
    configure(archive, f'{{ use = "deep-sbfv", bits = 40, {SMALL} }}')
    assert slideseek("build", "-a", archive).code == 0
    for mode, told in (("--vertical", False), ("--horizontal", True)):
        done = slideseek("search", "s0", "-a", archive, mode, "--json", "--evidence")
        assert done.code == 0, done.err
        answer = json.loads(done.out)
        assert {hit["slide"]["id"] for hit in answer["hits"]} == {"s2", "s4", "s6"}
        assert ("comparable only within a site" in done.err + done.out) == told
    configure(archive, f'{{ use = "deep-sbfv", preset = "best", bits = 40, {SMALL} }}')
    assert slideseek("build", "-a", archive).code == 0
    done = slideseek("search", "s0", "-a", archive, "-k", "7", "--json")
    assert len(json.loads(done.out)["hits"]) == 7 and "comparable" not in done.err + done.out


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ("bits = 40, sites = 1", "2 sites, the network has room for 1"),
        ("bits = 40, labels = 1", "2 labels, the network has room for 1"),
        ("bits = 1_000_000", "cannot keep 1000000"),
        ("bits = 40, learning_rate = 0.99", "diverged"),
    ],
)
def test_a_refused_training_leaves_nothing(archive, slideseek, options, cause, monkeypatch):
    monkeypatch.setattr(Trainer, "_rate", lambda self, step: 1e30 if "learning" in options else 1e-3)
    configure(archive, f'{{ use = "deep-sbfv", hidden = [8], latent = 3, epochs = 3, {options} }}')
    done = slideseek("build", "-a", archive)
    assert done.code == 1 and cause in done.err and "fix: " in done.err
    assert not (archive / "models").exists()
    assert not (archive / "training").exists() or not list((archive / "training").iterdir())
