"""The pages on searching from programs are true: the Python code runs, and the JSON has the shape that is shown."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from slideseek.searching.request import Result

PAGES = Path(__file__).resolve().parents[1] / "docs" / "how-to"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)


def keys(value: Any) -> Any:
    """Return the names in JSON, without the values; the free columns of a slide vary, and what was measured on it."""
    if isinstance(value, dict):
        return {name: name if name in ("fields", "measured") else keys(inner) for name, inner in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value else None


def test_code_of_the_python_page_runs(
    tiny_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.move(tiny_archive, tmp_path / "my-archive")
    monkeypatch.chdir(tmp_path)
    found = blocks("python.md", "python")
    assert len(found) == 7
    names: dict[str, Any] = {}
    for block in found:
        exec(compile(block.replace("S-001", "s0"), "python.md", "exec"), names)
    assert isinstance(names["result"], Result) and len(names["result"]) == 5
    assert "<table>" in names["result"]._repr_html_()
    assert names["status"]["engines"] and names["data"]["hits"]
    printed = capsys.readouterr().out
    assert "engines bars, mean" in printed and "{'bars': 8, 'mean': 8}" in printed


def test_json_has_the_documented_shape(tiny_archive: Path, slideseek: Any) -> None:
    (shown,) = blocks("search.md", "json")
    done = slideseek("search", "s0", "-k", 1, "-a", tiny_archive, "--json")
    assert done.code == 0, done.err
    assert keys(done.json) == keys(json.loads(shown))


@pytest.mark.slow
def test_commands_of_the_page_on_words_run(
    described: Path, slideseek: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "archive").symlink_to(described)
    page = (PAGES / "text-search.md").read_text(encoding="utf-8")
    commands = re.findall(r"^ {4}slideseek (.*)$", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        done = slideseek(*shlex.split(command))
        assert done.code == 0, done.err
    assert (tmp_path / "why.png").stat().st_size > 1000
