"""Commands of plugins that are wrong: one line each, in the help or as an error, and the others work."""

import sys
import types
from pathlib import Path

import click
import pytest

import slideseek.plugins as plugins
from slideseek.hookspecs import hookimpl

PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "reference.md"
NOT_A_COMMAND = "text"


@click.command()
@click.option("--times", default=1)
def fine(times: int) -> None:
    """Print a word."""
    click.echo("fine " * times)


@click.command()
def crashing() -> None:
    """Fail."""
    raise KeyError("oh")


def plugin(*commands):
    """A plugin that registers (name, import string) as commands."""

    def register_commands(register):
        for name, target in commands:
            register(name, target, f"a test of {name}")

    return types.SimpleNamespace(register_commands=hookimpl(register_commands))


@pytest.fixture
def install(monkeypatch):
    """Install plugins by name for one test: `install(one=plugin(...))`."""
    installed = plugins.load_registry

    def install(**extra):
        def load(kinds=plugins.COMPONENT_KINDS):
            return installed(extra=list(extra.items()), kinds=kinds)

        monkeypatch.setattr(plugins, "load_registry", load)

    return install


def words(text):
    """Text with single spaces: how wide a column of the help is depends on its names."""
    return " ".join(text.split())


def refused(done, *parts):
    """The error of a command: two lines at most, no traceback."""
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    lines = done.err.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2
    for part in parts:
        assert part in done.err
    return lines


def test_a_command_that_works(install, slideseek):
    install(good=plugin(("fine", f"{__name__}:fine")))
    done = slideseek("fine", "--times", 2)
    assert (done.code, done.out.split()) == (0, ["fine", "fine"])
    assert "fine a test of fine (from good -)" in words(slideseek("--help").out)


def test_the_command_of_the_page(install, slideseek, tiny_archive, tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8").partition("## Commands\n")[2].partition("```python\n")[2]
    (tmp_path / "lonely_command.py").write_text(text.partition("```")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    install(good=plugin(("lonely", "lonely_command:lonely")))
    done = slideseek("lonely", "-a", tiny_archive, "-n", 2)
    assert done.code == 0, done.err
    distances = [float(line.split()[1]) for line in done.out.splitlines()]
    assert len(distances) == 2
    assert distances == sorted(distances, reverse=True)
    refused(slideseek("lonely", "-a", tmp_path / "nowhere"), "is not an archive")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no_such_module:command", "cannot be imported from 'no_such_module:command' (ModuleNotFoundError"),
        (f"{__name__}:gone", f"cannot be imported from '{__name__}:gone' (AttributeError"),
        (f"{__name__}:NOT_A_COMMAND", "is not a click command"),
        ("nothing", "import string 'nothing' is not 'package.module:Name'"),
    ],
    ids=["no module", "no attribute", "not a command", "no import string"],
)
def test_a_command_that_cannot_be_used(install, slideseek, target, why):
    install(odd=plugin(("broken", target)), good=plugin(("fine", f"{__name__}:fine")))
    refused(slideseek("broken"), "command 'broken' of odd -", why)
    refused(slideseek("broken", "--help"), "command 'broken' of odd -", why)
    shown = slideseek("--help")
    assert (shown.code, shown.err) == (0, "")
    assert "broken a test of broken (from odd -)" in words(shown.out)
    assert slideseek("fine").code == 0


def test_a_module_that_exits_at_import(install, slideseek, tmp_path, monkeypatch):
    (tmp_path / "leaving_module.py").write_text("import sys\nsys.exit('no licence')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    install(odd=plugin(("leaver", "leaving_module:command")))
    refused(slideseek("leaver"), "command 'leaver' of odd -", "SystemExit: no licence")
    sys.modules.pop("leaving_module", None)


def test_a_name_that_core_has(install, slideseek):
    install(odd=plugin(("status", f"{__name__}:fine")))
    shown = slideseek("--help").out
    taken = shown.partition("Broken plugins:")[2]
    assert "status of odd -: slideseek has a command of this name" in words(taken)
    assert "From other plugins" not in shown
    assert "fine" not in slideseek("status", "--help").out, "the command of core runs"


def test_a_name_that_two_plugins_have(install, slideseek):
    one, two = (plugin(("same", f"{__name__}:fine")) for _ in range(2))
    install(one=one, two=two, good=plugin(("fine", f"{__name__}:fine")))
    refused(slideseek("same"), "command 'same' is registered twice, by one - and by two -", "uninstall one")
    assert slideseek("--help").code == 0
    assert slideseek("fine").code == 0


def test_a_name_that_an_application_has(install, slideseek):
    install(odd=plugin(("bench", f"{__name__}:fine")))
    refused(slideseek("bench", "run", "--list"), "command 'bench' is registered twice, by odd - and by slideseek ")
    assert slideseek("--help").code == 0


def test_a_plugin_that_crashes_while_it_registers(install, slideseek):
    def register_commands(register):
        raise RuntimeError("boom\nsecond line")

    install(odd=types.SimpleNamespace(register_commands=hookimpl(register_commands)))
    shown = slideseek("--help")
    assert shown.code == 0
    assert "odd of odd -: RuntimeError: boom second line" in words(shown.out.partition("Broken plugins:")[2])
    done = slideseek("odd")
    assert (done.code, "The plugin 'odd' of odd - is broken: RuntimeError: boom" in done.err) == (2, True)


def test_a_crash_is_a_bug_of_the_plugin(install, slideseek):
    install(odd=plugin(("crash", f"{__name__}:crashing")))
    done = slideseek("crash")
    assert done.code == 1
    assert done.err.splitlines()[-2] == "error: this is a bug in odd -"
