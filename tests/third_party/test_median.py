"""The encoder of another distribution: installed beside slideseek in a fresh environment, and used."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).resolve().parent / "slideseek-median"

CONFIG = """\
[[engine]]
name       = "medians"
selector   = { use = "grid", size = 128, mpp = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "median-sign", quantile = 0.5 }
index      = { use = "hamming" }
"""


@pytest.fixture(scope="module")
def environment(make_environment):
    """A fresh environment with slideseek and the plugin."""
    return make_environment("slideseek_median")


@pytest.fixture(scope="module")
def archive(environment, slides, tmp_path_factory):
    """An archive of the slides whose one engine uses the plugin's encoder, built."""
    folder = tmp_path_factory.mktemp("archive") / "medians"
    config = folder.parent / "medians.toml"
    config.write_text(CONFIG, encoding="utf-8")
    environment.slideseek("init", folder, "--config", config)
    environment.slideseek("add", slides, "--manifest", slides / "manifest.csv", "-a", folder)
    built = environment.json("build", "-a", folder)
    assert built["slides"] == {"ok": 6, "skipped": 0, "failed": 0}
    assert built["indexed"] == {"medians": 6}
    return folder


def test_slideseek_is_the_installed_one(environment):
    code = "import slideseek, slideseek_components, slideseek_median as m; print(slideseek.__file__, m.__file__)"
    found = environment.run("python", "-c", code).stdout.split()
    assert len(found) == 2
    assert all(Path(file).is_relative_to(environment.folder) for file in found)


def test_listed(environment):
    listed = environment.json("plugins", "list")
    assert listed["broken"] == []
    own = [entry for entry in listed["components"] if entry["distribution"] == "slideseek-median"]
    assert [(entry["kind"], entry["name"], entry["version"]) for entry in own] == [("encoder", "median-sign", "0.1.0")]
    names = [(entry["kind"], entry["name"]) for entry in listed["components"]]
    assert len(set(names)) == len(names)
    assert ("encoder", "mean") in names


def test_checked(environment):
    checks = environment.json("plugins", "check", "median-sign")["checks"]
    assert len(checks) > 15
    assert [check["name"] for check in checks if not check["passed"]] == []


def test_own_tests_pass_where_it_is_installed(environment):
    run = environment.pytest(PLUGIN)
    assert run.returncode == 0, run.stdout + run.stderr


def test_trained(archive):
    assert list((archive / "models").rglob("thresholds.safetensors"))


def test_searched(environment, archive):
    answer = environment.json("search", "pink-0", "-a", archive, "-k", "3")
    assert answer["engine"] == "medians"
    assert [hit["slide"]["id"] for hit in answer["hits"]][:2] in (["pink-2", "pink-4"], ["pink-4", "pink-2"])
    distances = [hit["distance"] for hit in answer["hits"]]
    assert len(distances) == 3
    assert distances == sorted(distances)
    assert distances[1] < distances[2]


def test_wrong_option_names_the_right_one(environment, tmp_path):
    config = tmp_path / "typo.toml"
    config.write_text(CONFIG.replace("quantile", "quantil"), encoding="utf-8")
    run = environment.run("slideseek", "init", tmp_path / "archive", "--config", config)
    assert run.returncode == 2
    assert "engine.medians.encoder.quantil" in run.stderr
    assert "did you mean 'quantile'?" in run.stderr


def test_scaffold_is_in_the_wheel(environment, tmp_path):
    environment.slideseek("plugins", "new", "first-try", "--kind", "index", "--dir", tmp_path)
    made = tmp_path / "slideseek-first-try"
    run = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=made)
    assert run.returncode == 0, run.stdout + run.stderr


def test_missing_plugin_is_named(environment, archive):
    run = environment.run("slideseek", "search", "pink-0", "-a", archive, SLIDESEEK_DISABLED_PLUGINS="slideseek-median")
    assert run.returncode == 2
    assert "no encoder named 'median-sign'" in run.stderr
