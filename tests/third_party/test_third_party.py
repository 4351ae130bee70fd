"""A plugin distribution of somebody else: built, installed beside slideseek in a fresh environment, and used.

Both distributions are installed from wheels. What slideseek depends on is not installed again: a path file lends the
fresh environment the packages of the environment the tests run in.
"""

import csv
import importlib.util
import json
import os
import site
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from slideseek.testing import toy_slide

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = Path(__file__).resolve().parent / "slideseek-median"

CONFIG = """\
[[engine]]
name       = "medians"
selector   = { use = "grid", size = 128, mpp = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "median-sign", quantile = 0.5 }
index      = { use = "hamming" }
"""


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *command: str | Path, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment, without the settings of the one the tests run in."""
        settings = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SLIDESEEK", "VIRTUAL_ENV"))}
        program, *rest = map(str, command)
        return subprocess.run(
            [str(self.folder / "bin" / program), *rest],
            cwd=cwd or self.folder, env=settings | variables, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def slideseek(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run `slideseek`, which must succeed."""
        run = self.run("slideseek", *arguments)
        assert run.returncode == 0, f"slideseek {arguments}: {run.stdout}{run.stderr}"
        return run

    def json(self, *arguments: str | Path) -> Any:
        """Run `slideseek ... --json` and return what it prints."""
        return json.loads(self.slideseek(*arguments, "--json").stdout)


def pip(*arguments: str | Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pip", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def build_wheels(sources: Sequence[Path], folder: Path) -> list[Path]:
    # With the build tool at hand nothing has to be fetched.
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    pip("wheel", "--quiet", "--no-deps", *isolation, "--wheel-dir", folder, *sources)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A fresh environment with slideseek and the plugin installed from wheels."""
    wheels = build_wheels([REPOSITORY, PLUGIN], tmp_path_factory.mktemp("wheels"))
    assert [wheel.name.split("-")[0] for wheel in wheels] == ["slideseek", "slideseek_median"]
    folder = tmp_path_factory.mktemp("fresh") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    made = Environment(folder)
    pip("--python", made.python, "install", "--quiet", "--no-deps", "--no-index", *wheels)
    purelib = made.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    Path(purelib, "lent_dependencies.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def slides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six small slides of two stains, each of a patient of its own, with a manifest."""
    folder = tmp_path_factory.mktemp("slides")
    rows = []
    for number in range(6):
        label, tint = (("pink", (1.0, 0.9, 1.0)), ("blue", (0.7, 0.9, 1.0)))[number % 2]
        pixels = toy_slide(seed=number, width=768, height=640).thumbnail(768)
        stained = np.where(pixels == 255, 255, pixels * np.array(tint)).astype(np.uint8)
        Image.fromarray(stained).save(folder / f"{label}-{number}.png")
        rows.append(
            {
                "slide_id": f"{label}-{number}",
                "path": f"{label}-{number}.png",
                "case_id": f"patient-{number}",
                "primary_site": "kidney",
                "diagnosis": label,
                "mpp": 0.5,
            }
        )
    with (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder


@pytest.fixture(scope="module")
def archive(environment: Environment, slides: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_slideseek_is_the_installed_one(environment: Environment) -> None:
    code = "import slideseek, slideseek_components, slideseek_median as m; print(slideseek.__file__, m.__file__)"
    found = environment.run("python", "-c", code).stdout.split()
    assert len(found) == 2
    assert all(Path(file).is_relative_to(environment.folder) for file in found)


def test_listed(environment: Environment) -> None:
    listed = environment.json("plugins", "list")
    assert listed["broken"] == []
    own = [entry for entry in listed["components"] if entry["distribution"] == "slideseek-median"]
    assert [(entry["kind"], entry["name"], entry["version"]) for entry in own] == [("encoder", "median-sign", "0.1.0")]
    names = [(entry["kind"], entry["name"]) for entry in listed["components"]]
    assert len(set(names)) == len(names)
    assert ("encoder", "mean") in names


def test_checked(environment: Environment) -> None:
    checks = environment.json("plugins", "check", "median-sign")["checks"]
    assert len(checks) > 15
    assert [check["name"] for check in checks if not check["passed"]] == []


def test_own_tests_pass_where_it_is_installed(environment: Environment) -> None:
    installed = ("-o", "pythonpath=")  # not the sources beside the tests
    run = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *installed, cwd=PLUGIN)
    assert run.returncode == 0, run.stdout + run.stderr


def test_trained(archive: Path) -> None:
    assert list((archive / "models").rglob("thresholds.safetensors"))


def test_searched(environment: Environment, archive: Path) -> None:
    answer = environment.json("search", "pink-0", "-a", archive, "-k", "3")
    assert answer["engine"] == "medians"
    assert [hit["slide"]["id"] for hit in answer["hits"]][:2] in (["pink-2", "pink-4"], ["pink-4", "pink-2"])
    distances = [hit["distance"] for hit in answer["hits"]]
    assert len(distances) == 3
    assert distances == sorted(distances)
    assert distances[1] < distances[2]


def test_wrong_option_names_the_right_one(environment: Environment, tmp_path: Path) -> None:
    config = tmp_path / "typo.toml"
    config.write_text(CONFIG.replace("quantile", "quantil"), encoding="utf-8")
    run = environment.run("slideseek", "init", tmp_path / "archive", "--config", config)
    assert run.returncode == 2
    assert "engine.medians.encoder.quantil" in run.stderr
    assert "did you mean 'quantile'?" in run.stderr


def test_scaffold_is_in_the_wheel(environment: Environment, tmp_path: Path) -> None:
    environment.slideseek("plugins", "new", "first-try", "--kind", "index", "--dir", tmp_path)
    made = tmp_path / "slideseek-first-try"
    run = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=made)
    assert run.returncode == 0, run.stdout + run.stderr


def test_missing_plugin_is_named(environment: Environment, archive: Path) -> None:
    run = environment.run("slideseek", "search", "pink-0", "-a", archive, SLIDESEEK_DISABLED_PLUGINS="slideseek-median")
    assert run.returncode == 2
    assert "no encoder named 'median-sign'" in run.stderr
