"""What CONTRIBUTING.md names is there: files, folders, commands of make, and the mark of slow tests."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"(?<![\w./])((?:core|plugins|tests|docs|tools)/[\w./-]*\w/?)", GUIDE)))


def test_the_guide_names_files():
    assert len(PATHS) > 50


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_there(path):
    found = ROOT / path
    assert found.is_dir() if path.endswith("/") else found.is_file()


def test_every_target_of_make_is_there():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = {
        word for line in re.findall(r"\bmake ([a-z ]+?)(?: {2}|`|$)", GUIDE, re.MULTILINE) for word in line.split()
    }
    assert {"quick", "test", "lint", "types"} <= named <= set(targets)


def test_slow_is_a_mark_with_a_meaning():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert any(re.match(r"slow: .{40}", mark) for mark in options["markers"])
