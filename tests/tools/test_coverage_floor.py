"""The floor of the coverage may rise and may not be lowered."""

import importlib.util
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("coverage_floor", ROOT / "tools" / "coverage_floor.py")
assert SPEC is not None and SPEC.loader is not None
coverage_floor = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(coverage_floor)


def project(floor):
    return f"[tool.coverage.report]\nfail_under = {floor}\n"


@pytest.fixture
def checkout(tmp_path):
    """A checkout with two commits: one without a floor, and one with a floor of 80.5."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for text in ("", project(80.5)):
        (tmp_path / "pyproject.toml").write_text(text)
        subprocess.run(["git", "-C", tmp_path, "add", "pyproject.toml"], check=True)
        subprocess.run(["git", "-C", tmp_path, *who, "commit", "--quiet", "--message", "a"], check=True)
    return tmp_path


@pytest.mark.parametrize(("floor", "passes"), [(80.5, True), (81, True), (80.4, False), (0, False)])
def test_a_floor_may_only_rise(checkout, floor, passes):
    (checkout / "pyproject.toml").write_text(project(floor))
    cause = coverage_floor.lowered(checkout, "HEAD")
    assert (cause == "") is passes
    assert passes or cause == f"fail_under in pyproject.toml is {floor}, and was 80.5 in HEAD: add tests instead"


def test_a_commit_without_a_floor_passes(checkout):
    assert coverage_floor.lowered(checkout, "HEAD^") == ""


def test_the_project_has_a_floor():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert coverage_floor.floor_of(text) > 50
    assert tomllib.loads(text)["tool"]["coverage"]["run"]["patch"] == ["subprocess"], "commands of tests count too"
