"""The skill file for coding assistants is true: every command in it runs, and what it says of answers holds."""

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest

from slideseek.cli import cli

ROOT = Path(__file__).resolve().parents[1]
SKILL = (ROOT / "skills" / "slideseek" / "SKILL.md").read_text(encoding="utf-8")
TASKS = [
    pytest.param(command, id=command)
    for row in re.findall(r"^\| .* \| (.*) \|$", SKILL, re.MULTILINE)
    for command in re.findall(r"`slideseek ([^`]*)`", row)
]


def test_the_front_matter_names_the_skill_and_when_to_use_it():
    front = SKILL.split("---")[1]
    assert "\nname: slideseek\n" in front and "Use when" in front
    assert len(SKILL) < 6000, "an assistant reads it whole: keep it short"


@pytest.mark.parametrize("command", TASKS)
def test_commands_of_the_skill_run(command, tiny_archive, tiny_slides, tmp_path, monkeypatch, slideseek):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries.txt").write_text("s0\ns1\n")
    words = shlex.split(command)
    if words[:2] in (["plugins", "check"], ["bench", "run"]):
        group = cli.get_command(click.Context(cli), words[0])
        assert isinstance(group, click.Group)
        found = group.get_command(click.Context(cli), words[1])
        assert found is not None
        options = {name for option in found.params for name in option.opts}
        assert set(re.findall(r"--[\w-]+", command)) <= options
        return
    made = "new" if words[0] in ("init", "add", "build") else str(tiny_archive)
    name = "mean" if words[:2] == ["plugins", "show"] else "mine"
    stands = {"ARCHIVE": made, "SLIDE": "s0", "SLIDES": str(tiny_slides), "FILE": "queries.txt", "NAME": name}
    stands |= {"CSV": str(tiny_slides / "manifest.csv"), "label=X": "label=fine"}
    if words[0] in ("add", "build"):
        shutil.copytree(tiny_archive, tmp_path / "new")
    done = slideseek(*(stands.get(word, word) for word in words))
    assert done.code == 0, done.err


def test_what_it_says_of_answers_holds(tiny_archive, slideseek):
    answer = slideseek("search", "s0", "-a", tiny_archive, "--json").json
    assert {"rank", "distance", "slide"} <= set(answer["hits"][0])
    assert {"id", "site", "label", "fields"} <= set(answer["hits"][0]["slide"])
    assert set(answer["votes"]["label"]) == {"value", "agreeing", "labelled", "hits", "confidence"}
    assert all(hit["slide"]["patient"] != answer["query"]["patient"] for hit in answer["hits"])
    unknown = slideseek("search", "s00", "-a", tiny_archive)
    assert unknown.code == 2 and "fix:" in unknown.err and "s0" in unknown.err
