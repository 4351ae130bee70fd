"""Distributions that exist for importlib.metadata alone: a folder on the path with their metadata, nothing installed.

Every front end then finds them as it finds what pip installs, with a distribution and a version, in this process.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:  # the plugin is imported by its name, as an installed one is
    sys.path.append(str(HERE))

from wrong_plugins import PLUGINS, SWITCH  # noqa: E402


def install(site: Path, name: str, version: str, plugins: dict[str, str], editable: bool = False) -> None:
    """Write the metadata of a distribution into a folder. plugins: by name, what its entry point loads."""
    for old in site.glob(f"{name.replace('-', '_')}-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{plugin} = {target}" for plugin, target in plugins.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[slideseek]", *lines, ""]))
    if editable:
        (folder / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))


@pytest.fixture(scope="module")
def wrong_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on the path with the distributions of the table."""
    site = tmp_path_factory.mktemp("site")
    install(site, "slideseek-wrong", "0.1.0", {"wrong": "wrong_plugins"})
    for distribution, plugin in PLUGINS.items():
        name, version = distribution.split()
        install(site, name, version, {name.removeprefix("slideseek-"): f"wrong_plugins:{plugin}"})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.delenv("SLIDESEEK_DEBUG", raising=False)
        yield site


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Install a distribution for one test, or install it again: `installed("slideseek-x", "0.2.0", plugins)`."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def make(name: str, version: str, plugins: dict[str, str], editable: bool = False) -> Path:
        install(site, name, version, plugins, editable)
        return site

    return make


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the components wrong."""
    monkeypatch.setenv(SWITCH, "on")
