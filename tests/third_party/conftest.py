"""Fresh environments with slideseek and the plugin distributions beside this file, all installed from wheels.

The distributions have tests of their own, which run where they are installed. What slideseek depends on is not
installed again: a path file lends the fresh environment the packages of the environment the tests run in.
"""

import csv
import importlib.util
import json
import os
import site
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from slideseek_apps.testing import toy_slide

HERE = Path(__file__).resolve().parent
DISTRIBUTIONS = {
    "slideseek": HERE.parents[1],
    "slideseek_median": HERE / "slideseek-median",
    "slideseek_cohort": HERE / "slideseek-cohort",
}

collect_ignore = ["slideseek-median", "slideseek-cohort"]


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

    def pytest(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the tests of a distribution against the installed one, not against the sources beside the tests."""
        return self.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=", cwd=folder)

    def install(self, *what: str | Path) -> None:
        """Install the sources of a distribution, in place of another version; `--editable` may come first."""
        pip("--python", self.python, "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", *what)

    @property
    def packages(self) -> Path:
        """The folder that distributions are installed in."""
        return next(self.folder.glob("lib/python3*/site-packages"))

    def uninstall(self, distribution: str) -> None:
        pip("--python", self.python, "uninstall", "--quiet", "--yes", distribution)


def pip(*arguments: str | Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pip", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheels of slideseek and the distributions, by name."""
    folder = tmp_path_factory.mktemp("wheels")
    # With the build tool at hand nothing has to be fetched.
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    pip("wheel", "--quiet", "--no-deps", *isolation, "--wheel-dir", folder, *DISTRIBUTIONS.values())
    found = {wheel.name.split("-")[0]: wheel for wheel in folder.glob("*.whl")}
    assert found.keys() == DISTRIBUTIONS.keys()
    return found


@pytest.fixture(scope="session")
def make_environment(
    wheels: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Environment]:
    """Make a fresh environment with slideseek and some distributions: `make_environment("slideseek_median")`."""

    def make(*names: str) -> Environment:
        folder = tmp_path_factory.mktemp("fresh") / "env"
        venv.create(folder, with_pip=False, symlinks=True)
        made = Environment(folder)
        chosen = [wheels[name] for name in ("slideseek", *names)]
        pip("--python", made.python, "install", "--quiet", "--no-deps", "--no-index", *chosen)
        purelib = made.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
        Path(purelib, "lent_dependencies.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
        return made

    return make


@pytest.fixture(scope="session")
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
