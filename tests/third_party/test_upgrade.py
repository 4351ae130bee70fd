"""A plugin is upgraded, edited or left alone in a real environment: only what depends on its code is computed again."""

import re
import shutil

import pytest

pytestmark = pytest.mark.slow

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "slideseek-drift"
version = "{version}"

[project.entry-points.slideseek]
drift = "slideseek_drift.plugin"

[tool.hatch.build]
dev-mode-dirs = ["src"]

[tool.hatch.build.targets.wheel]
packages = ["src/slideseek_drift"]
"""
PLUGIN = """\
from slideseek.hookspecs import hookimpl

@hookimpl
def register_encoders(register):
    register("drift", "slideseek_drift.encoder:Drift", "signs of the mean")
"""
ENCODER = """\
from dataclasses import dataclass
import numpy as np
from slideseek.types import Code, CodeSpec

@dataclass
class Drift:
    {revision}

    def spec(self, width):
        return CodeSpec("bits", 16)

    def encode(self, bag):
        mean = bag.features.mean(axis=0)[:16]
        return Code(bag.slide_id, np.packbits(mean > {level} * np.median(mean))[None])
"""
CONFIG = """\
[[engine]]
name       = "drift"
selector   = { use = "grid", size = 128, mpp = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "drift" }
index      = { use = "hamming" }
"""


@pytest.fixture(scope="module")
def environment(make_environment):
    """A fresh environment with slideseek alone."""
    return make_environment()


@pytest.fixture
def release(environment, tmp_path):
    """Install a release of the plugin: `release("0.2.0", level=2, revision=None, editable=False)`; returns its code."""

    def make(version, level=1, revision=None, editable=False):
        package = tmp_path / "sources" / "src" / "slideseek_drift"
        package.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sources" / "pyproject.toml").write_text(PROJECT.format(version=version))
        (package / "__init__.py").touch()
        (package / "plugin.py").write_text(PLUGIN)
        declared = "pass" if revision is None else f"code_revision = {revision}"
        (package / "encoder.py").write_text(ENCODER.format(revision=declared, level=level))
        environment.install(*(["--editable"] if editable else []), tmp_path / "sources")
        return package / "encoder.py"

    yield make
    environment.uninstall("slideseek-drift")


@pytest.fixture
def built(environment, slides, tmp_path):
    """Build an archive with the installed release: `built()`."""

    def make():
        (tmp_path / "drift.toml").write_text(CONFIG)
        archive = tmp_path / "archive"
        environment.slideseek("init", archive, "--config", tmp_path / "drift.toml")
        environment.slideseek("add", slides, "--manifest", slides / "manifest.csv", "-a", archive)
        environment.slideseek("build", "-a", archive)
        return archive

    return make


def stages(environment, archive):
    """Return by stage the facts of its results: a stage that ran again took another time."""
    slides = environment.json("status", "-a", archive)["slides"]
    found = [slide["engines"]["drift"]["stages"] for slide in slides]
    return {stage: [one.get(stage) for one in found] for stage in ("select", "featurize", "encode")}


def again(before, after):
    """Return the stages that ran again, for every slide."""
    ran = [name for name in before if all(x != y for x, y in zip(before[name], after[name], strict=True))]
    kept = [name for name in before if before[name] == after[name]]
    assert sorted(ran + kept) == sorted(before), "a stage ran again for some slides only"
    return ran


def check_refused(environment, archive, was, now):
    for query in ((), ("--region", "100,100,400,400")):
        run = environment.run("slideseek", "search", "pink-0", "-a", archive, *query)
        assert run.returncode and not run.stdout, run.stdout
        assert re.search(f"encoder 'drift' was {was}.*, and is now {now}.*must not be mixed", run.stderr), run.stderr
        assert "fix: run 'slideseek build'" in run.stderr
        assert "Traceback" not in run.stderr


def test_an_upgrade_computes_the_codes_again_and_nothing_else(environment, release, built):
    release("0.1.0")
    archive = built()
    before = stages(environment, archive)
    release("0.2.0", level=2)
    check_refused(environment, archive, "slideseek-drift 0.1.0", "slideseek-drift 0.2.0")
    assert "out of date: run 'slideseek build'" in environment.slideseek("status", "-a", archive).stdout
    run = environment.slideseek("build", "-a", archive)
    assert "encoder 'drift' was slideseek-drift 0.1.0, and is now slideseek-drift 0.2.0" in run.stderr
    assert "its codes are computed again" in run.stderr
    assert again(before, stages(environment, archive)) == ["encode"]
    assert len(environment.json("search", "pink-0", "-a", archive, "-k", "3")["hits"]) == 3


def test_an_upgrade_with_the_same_revision_computes_nothing(environment, release, built):
    release("0.1.0", revision=1)
    archive = built()
    before = stages(environment, archive)
    release("0.2.0", revision=1)
    assert environment.json("search", "pink-0", "-a", archive)["hits"]
    assert "computed again" not in environment.slideseek("build", "-a", archive).stderr
    assert again(before, stages(environment, archive)) == []


def test_an_edit_in_place_is_noticed(environment, release, built):
    code = release("0.1.0", editable=True)
    archive = built()
    before = stages(environment, archive)
    code.write_text(code.read_text().replace("mean > 1 *", "mean > 2.5 *"))
    check_refused(environment, archive, "slideseek-drift 0.1.0, source", "slideseek-drift 0.1.0, source")
    assert "its codes are computed again" in environment.slideseek("build", "-a", archive).stderr
    assert again(before, stages(environment, archive)) == ["encode"]


def test_recompute_does_what_it_says(environment, release, built):
    release("0.1.0")
    archive = built()
    before = stages(environment, archive)
    environment.slideseek("build", "-a", archive, "--recompute", "encode")
    coded = stages(environment, archive)
    assert again(before, coded) == ["encode"]
    environment.slideseek("build", "-a", archive, "--recompute", "featurize")
    featurized = stages(environment, archive)
    assert again(coded, featurized) == ["featurize", "encode"]
    environment.slideseek("build", "-a", archive, "--recompute", "index")
    assert again(featurized, stages(environment, archive)) == []


def test_another_version_of_slideseek_computes_nothing(make_environment, slides, tmp_path):
    environment = make_environment()
    archive, config = tmp_path / "archive", tmp_path / "plain.toml"
    config.write_text(CONFIG.replace('use = "drift"', 'use = "yottixel"'))
    environment.slideseek("init", archive, "--config", config)
    environment.slideseek("add", slides, "--manifest", slides / "manifest.csv", "-a", archive)
    environment.slideseek("build", "-a", archive)
    before = stages(environment, archive)
    version = environment.packages / "slideseek" / "version.py"
    version.write_text(re.sub(r'__version__ = ".*"', '__version__ = "9.9.9"', version.read_text()))
    (metadata,) = environment.packages.glob("slideseek-*.dist-info")
    text = re.sub(r"^Version: .*$", "Version: 9.9.9", (metadata / "METADATA").read_text(), flags=re.M)
    (metadata / "METADATA").write_text(text)
    shutil.move(metadata, metadata.with_name("slideseek-9.9.9.dist-info"))
    assert "9.9.9" in environment.slideseek("--version").stdout
    owners = {one["version"] for one in environment.json("plugins", "list")["components"]}
    assert owners == {"9.9.9"}
    assert environment.json("search", "pink-0", "-a", archive)["hits"]
    assert "computed again" not in environment.slideseek("build", "-a", archive).stderr
    assert again(before, stages(environment, archive)) == []
