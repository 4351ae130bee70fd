"""The documentation is true: its configuration loads, its links lead somewhere, its commands exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from slideseek.cli import cli
from slideseek.config import parse_config
from slideseek.engine import make_engines
from slideseek.plugins import KINDS, load_registry
from slideseek_apps.bench.config import parse_bench_config
from slideseek_apps.bench.sweeps import expand_sweeps

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = cli.list_commands(click.Context(cli))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL))
    if "[[engine]]" in block
]
BENCH_BLOCKS = [block for block in BLOCKS if "[dataset]" in str(block.values[0])]
BLOCKS = [block for block in BLOCKS if block not in BENCH_BLOCKS]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_engine_block_loads(block):
    assert make_engines(parse_config(block).engines, load_registry())


@pytest.mark.parametrize("block", BENCH_BLOCKS)
def test_every_benchmark_block_loads(block):
    registry = load_registry(kinds=KINDS)
    config = parse_bench_config(tomllib.loads(block), ROOT, "the page", registry)
    for variant in (v for engine in config.engines for v in expand_sweeps(engine, registry)):
        assert variant.make_encoder(0).spec(1024).width >= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_command_is_documented():
    text = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for name in COMMANDS:
        assert f"`slideseek {name}" in text, name


def options():
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        inner = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for part, found in inner:
            yield from (
                pytest.param(f"{name} {part}".strip(), option.opts[-1], id=f"{name} {part} {option.opts[-1]}")
                for option in found.params
                if isinstance(option, click.Option)
            )


@pytest.mark.parametrize(("command", "option"), list(options()))
def test_every_option_is_documented(command, option):
    text = (ROOT / "docs" / "reference" / "commands.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith(f"| `slideseek {command} ")]
    short = {"--archive": "-a ARCHIVE", "--output": "-o ", "--picture": "-o "}.get(option, option)
    assert any(short in row for row in rows) or (option == "--archive" and "take `-a ARCHIVE`" in text), option


def test_what_the_page_of_dirty_archives_quotes_is_said():
    """The first column of its tables quotes messages; `...` stands for what varies in them."""
    page = (ROOT / "docs" / "how-to" / "dirty-archives.md").read_text()
    source = "\n".join(path.read_text() for name in ("core", "plugins") for path in sorted((ROOT / name).rglob("*.py")))
    tables = page.partition("These are notes")[2].partition("## Tissue")[0] + page.partition("a failed line means")[2]
    cells = [line.split("|")[1] for line in tables.splitlines() if line.startswith("| `")]
    quoted = [quote for cell in cells for quote in re.findall(r"`([^`]+)`", cell)]
    assert len(quoted) > 20
    for quote in quoted:
        for part in filter(None, (part.strip(" :") for part in quote.split("..."))):
            assert part in source, quote


def test_the_readme_is_two_screens():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 120


def test_every_bundled_component_is_in_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    for entry in load_registry().registrations():
        if entry.distribution == "slideseek":
            assert f"`{entry.name}`" in text, entry.name


def test_only_known_commands_are_named():
    for page in PAGES:
        for name in re.findall(r"^ {4}slideseek ([a-z]+)", page.read_text(), re.MULTILINE):
            assert name in COMMANDS, (page, name)


def test_the_page_of_components_is_what_the_components_say():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "component_pages.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python tools/component_pages.py"
