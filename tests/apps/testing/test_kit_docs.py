"""The pages for plugin authors are complete and true: every hook, interface and check is there, and the code runs."""

import importlib.util
import inspect
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from slideseek import interfaces, plugins
from slideseek.cli import cli
from slideseek.config import parse_config
from slideseek.engine import make_engines
from slideseek.hookspecs import Hooks, Register
from slideseek.plugins import load_registry
from slideseek_apps.testing import (
    Check,
    encoder_checks,
    featurizer_checks,
    index_checks,
    reader_checks,
    reranker_checks,
    run_checks,
    selector_checks,
)

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "plugins"
SAMPLE = ROOT / "tests" / "third_party" / "slideseek-median"

HOOKS = [value for name, value in vars(Hooks).items() if name.startswith("register_")]
PROTOCOLS = [
    value
    for value in vars(interfaces).values()
    if isinstance(value, type) and value.__module__ == interfaces.__name__ and getattr(value, "_is_protocol", False)
]


def signature(function: Any) -> str:
    """Write a signature as a reader expects it: no `self`, no quotes around types."""
    return (
        re.sub(r"\(self(, )?", "(", f"{function.__name__}{inspect.signature(function)}")
        .replace("'", "")
        .replace(str(Register), "Register")
    )


def members(protocol: type) -> Iterator[str]:
    for name, value in vars(protocol).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            assert value.fget is not None
            yield f"{name}: {value.fget.__annotations__['return']}"
        elif inspect.isfunction(value):
            yield signature(value)


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)


def file_blocks() -> dict[str, str]:
    """Return the code of the tutorial by the file it says it belongs to."""
    found = {}
    for block in blocks("first-encoder.md"):
        first, _, rest = block.partition("\n")
        found[first.removeprefix("# ")] = rest
    return found


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_hook_is_documented_with_its_signature(hook: Any) -> None:
    assert f"| `{signature(hook)}` |" in (PAGES / "reference.md").read_text(encoding="utf-8")


def test_there_are_hooks_and_interfaces_to_document() -> None:
    assert {hook.__name__ for hook in HOOKS} == set(plugins.HOOKS.values())
    assert {"Selector", "Featurizer", "Encoder", "Trainable", "Index", "Slide"} <= {p.__name__ for p in PROTOCOLS}


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_interface_is_documented_with_its_members(protocol: type) -> None:
    text = (PAGES / "reference.md").read_text(encoding="utf-8")
    section = text.partition(f"### {protocol.__name__}\n")[2].partition("\n#")[0].replace("\\|", "|")
    wanted = list(members(protocol))
    assert wanted
    for member in wanted:
        assert f"| `{member}` |" in section, member


@pytest.mark.parametrize("kind", [kind for kind, names in interfaces.CAPABILITIES.items() if names])
def test_capabilities_are_listed_and_have_an_example(kind: str) -> None:
    text = (PAGES / "reference.md").read_text(encoding="utf-8").partition("## Capabilities\n")[2].partition("\n## ")[0]
    names = [protocol.__name__ for protocol in interfaces.CAPABILITIES[kind]]
    assert f"| {kind} | {', '.join(f'`{name}`' for name in names)} |" in text
    for name, protocol in zip(names, interfaces.CAPABILITIES[kind]):
        example = (
            text.partition(f"### {name}\n")[2].partition("\n### ")[0].partition("```python\n")[2].partition("```")[0]
        )
        assert re.search(rf"class \w+\(.*\b{name}\):", example), name
        for member in plugins.own_members(protocol):
            assert f"    def {member}(self" in example, member


@pytest.mark.parametrize(
    ("title", "checks"),
    [
        ("Selector", selector_checks()),
        ("Featurizer", featurizer_checks()),
        ("Encoder", encoder_checks()),
        ("Index", index_checks()),
        ("Reranker", reranker_checks()),
        ("Reader", reader_checks(Path("slide.toy"))),
    ],
)
def test_checks_are_documented_one_by_one(title: str, checks: tuple[Check, ...]) -> None:
    text = (PAGES / "checks.md").read_text(encoding="utf-8")
    section = text.partition(f"## {title}: ")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    assert documented == [(check.__name__, (check.__doc__ or "").strip()) for check in checks]


@pytest.mark.parametrize("page", ["checks.md", "reference.md"])
def test_code_of_the_page_runs(page: str) -> None:
    found = blocks(page)
    assert found
    names: dict[str, Any] = {}
    for block in found:
        exec(compile(block, page, "exec"), names)
    if page == "checks.md":
        assert all(result.passed for result in names["run_checks"]("index", names["Hamming"]))
        assert len(names["bags"]) == 12
        for check in names["encoder_checks"]():
            names["test_conformance"](check)


def test_tutorial_shows_the_distribution_that_is_tested() -> None:
    """The page is named as the scaffold names it; the sample is the same under a shorter name."""
    shown = file_blocks()
    assert set(shown) == {
        "src/slideseek_median_sign/plugin.py",
        "src/slideseek_median_sign/encoder.py",
        "tests/test_encoder.py",
    }
    for path, code in shown.items():
        sample = (SAMPLE / path.replace("_sign", "")).read_text(encoding="utf-8")
        assert code == re.sub("slideseek([_-])median", r"slideseek\1median\1sign", sample), path


def test_failure_that_the_tutorial_shows_is_what_the_kit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("encoder_without_a_guard")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # a dataclass looks its module up
    whole = (SAMPLE / "src/slideseek_median/encoder.py").read_text(encoding="utf-8")
    guard = "        if len(bag) == 0:\n            raise EmptyBagError(bag.slide_id)\n"
    assert guard in whole
    exec(whole.replace(guard, ""), module.__dict__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing
        failed = [result for result in run_checks("encoder", module.MedianSign) if not result.passed]
    text = " ".join((PAGES / "first-encoder.md").read_text(encoding="utf-8").split())
    assert len(failed) == 1
    assert f"FAILED {failed[0].name}: {failed[0].summary} {failed[0].message}" in text


def test_configuration_of_the_tutorial_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SAMPLE / "src"))
    spec = importlib.util.spec_from_file_location("plugin_of_the_tutorial", SAMPLE / "src/slideseek_median/plugin.py")
    assert spec is not None
    assert spec.loader is not None
    plugin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plugin)
    text = (PAGES / "first-encoder.md").read_text(encoding="utf-8")
    block = re.search(r"^ {4}\[\[engine\]\]\n(?: {4}.*\n)+", text, re.MULTILINE)
    assert block is not None
    config = parse_config(block.group(0))
    engines = make_engines(config.engines, load_registry(extra=[("tutorial", plugin)]))
    assert [engine.name for engine in engines] == ["medians"]
    for name in [name for name in sys.modules if name.startswith("slideseek_median")]:
        monkeypatch.delitem(sys.modules, name)


def commands() -> list[str]:
    found = []
    for page in sorted(PAGES.glob("*.md")):
        found += re.findall(r"^ {4}(slideseek [a-z].*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return found


@pytest.mark.parametrize("line", commands())
def test_command_is_one_that_slideseek_takes(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse the arguments of every command without running it."""
    (tmp_path / "results").mkdir()  # the command before it on the page makes this folder
    monkeypatch.chdir(tmp_path)
    command: click.Command = cli
    name, *arguments = shlex.split(line)
    context = click.Context(command, info_name=name)
    while isinstance(command, click.Group):
        found = command.get_command(context, arguments[0])
        assert found is not None, arguments[0]
        command, arguments = found, arguments[1:]
    command.make_context(line, list(arguments), parent=context)
