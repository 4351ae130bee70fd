"""The documentation is true: its configuration loads, its links lead somewhere, its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from slideseek.cli import COMMANDS
from slideseek.config import parse_config
from slideseek.engine import make_engines
from slideseek.plugins import load_registry

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL))
    if "[[engine]]" in block
]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_engine_block_loads(block):
    assert make_engines(parse_config(block).engines, load_registry())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_command_is_documented():
    text = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for name in COMMANDS:
        assert f"`slideseek {name}" in text, name


def test_only_known_commands_are_named():
    for page in PAGES:
        for name in re.findall(r"^ {4}slideseek ([a-z]+)", page.read_text(), re.MULTILINE):
            assert name in COMMANDS, (page, name)


def test_the_page_of_components_is_what_the_components_say():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "component_pages.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python tools/component_pages.py"
