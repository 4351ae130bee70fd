"""No package with a known vulnerability is installed, or allowed by the requirements (`tools/advisories.toml`)."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
ADVISORIES = tomllib.loads((ROOT / "tools" / "advisories.toml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = [
    Requirement(text)
    for text in (*PROJECT["dependencies"], *(one for many in PROJECT["optional-dependencies"].values() for one in many))
]


@pytest.mark.parametrize("name", ADVISORIES)
def test_what_is_installed_has_the_fix(name):
    try:
        installed = Version(version(name))
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    fixed = ADVISORIES[name]["fixed"]
    assert installed >= Version(fixed), f"{name} {installed} has {ADVISORIES[name]['ids']}: install {fixed} or newer"


@pytest.mark.parametrize("one", [one for one in REQUIRED if one.name in ADVISORIES], ids=str)
def test_what_is_required_has_the_fix(one):
    least = [Version(part.version) for part in one.specifier if part.operator in (">=", "==")]
    fixed = ADVISORIES[one.name]["fixed"]
    assert least and max(least) >= Version(fixed), f"write '{one.name}>={fixed}' in pyproject.toml"


def test_the_list_is_complete_in_itself():
    for name, one in ADVISORIES.items():
        assert set(one) == {"fixed", "ids", "why"} and name == name.lower()
        assert one["ids"] and all(re.fullmatch(r"CVE-\d{4}-\d{4,}", entry) for entry in one["ids"])


def test_a_vulnerable_version_is_found(monkeypatch):
    monkeypatch.setitem(globals(), "version", lambda _: "1.0")
    with pytest.raises(AssertionError, match="CVE-2025-32434"):
        test_what_is_installed_has_the_fix("torch")
