"""Help ends with examples that parse, and errors are JSON where a program reads the output."""

import os
import shlex
import subprocess
import sys

import click
import pytest

from slideseek.cli import cli


def commands(group=cli, above=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*above, name))
        else:
            yield pytest.param((*above, name), found, id=" ".join((*above, name)))


@pytest.mark.parametrize(("path", "command"), list(commands()))
def test_every_command_has_examples_that_parse(path, command):
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.strip().startswith("slideseek")]
    assert lines, f"slideseek {' '.join(path)} has no example"
    for line in lines:
        words = shlex.split(line.split(" > ")[0].split(" >> ")[0])
        assert words[1 : 1 + len(path)] == list(path), line
        given, left, _ = command.make_parser(click.Context(command)).parse_args(words[1 + len(path) :])
        assert not left, line
        required = [p.name for p in command.params if p.required and given.get(p.name) in (None, ())]
        assert not required, f"{line} lacks {required}"


def test_help_shows_the_examples_as_written(slideseek):
    said = slideseek("search", "--help").out
    assert "Examples:\n    slideseek search S-001 -a my-archive\n" in said


def test_an_error_with_json_is_json(tiny_archive, slideseek):
    done = slideseek("search", "nothing", "-a", tiny_archive, "--json")
    assert done.code == 2 and done.json["error"]["exit_code"] == 2
    assert "nothing" in done.json["error"]["cause"] and done.json["error"]["fix"] and "error: " in done.err
    wrong = slideseek("search", "s0", "-k", "many", "-a", tiny_archive, "--json")
    assert wrong.code == 2 and "many" in wrong.json["error"]["cause"]
    assert slideseek("search", "nothing", "-a", tiny_archive).out == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell, slideseek):
    done = slideseek("completion", shell)
    assert done.code == 0 and "_SLIDESEEK_COMPLETE" in done.out and "slideseek" in done.out


@pytest.mark.parametrize(("words", "completed"), [("slideseek sea", "search"), ("slideseek add --man", "--manifest")])
def test_completion_completes_commands_and_options(words, completed):
    asked = {"_SLIDESEEK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    command = [sys.executable, "-m", "slideseek"]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, timeout=60, check=False)
    assert completed in done.stdout, done.stderr
