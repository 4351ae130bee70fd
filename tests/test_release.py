"""What a release needs is consistent: one version, pinned actions, a site that builds without a warning."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from slideseek import __version__

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_version_is_stated_once_and_cited():
    assert "version" not in PROJECT["project"]
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == __version__


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_named_by_version(workflow):
    lines = [line for line in workflow.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+", line), line


def test_published_metadata_caps_neither_torch_nor_needs_a_compiler():
    extras = PROJECT["project"]["optional-dependencies"]
    needs = [*PROJECT["project"]["dependencies"], *(need for extra in extras.values() for need in extra)]
    assert not [need for need in needs if need.startswith("torch") and "<" in need]
    (named,) = re.findall(r"\[(.*)\]", extras["all"][0])
    assert set(named.split(",")) == set(extras) - {"all", "annoy"}, "an extra is missing in `all`"


def test_every_page_is_in_the_navigation():
    def pages(part):
        if isinstance(part, str):
            yield part
        else:
            for inner in part if isinstance(part, list) else part.values():
                yield from pages(inner)

    named = list(pages(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]))
    assert sorted(named) == sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("zensical", reason="the documentation site needs the dependency group docs")
    text = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")  # the site must lie within the project, and not in the checkout
    for name in ("core", "plugins"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "zensical.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "reference" / "api" / "index.html").read_text(encoding="utf-8")
    assert "slideseek.api.OpenArchive" in page and "slideseek.interfaces.Encoder" in page
