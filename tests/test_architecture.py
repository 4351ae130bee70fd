"""The shape of the project: layers, size, who knows whom, and that the page of the architecture says what is so."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest

from slideseek.plugins import COMPONENT_KINDS, HOOKS, KINDS, load_registry

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "slideseek"
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
}
CHECKS = ("isinstance", "implements")
MAX_LINES_OF_CORE = 13_000
MAX_FILES_OF_A_SEARCH = 28
MAX_FILES_OF_AN_ENCODING = 12


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def asked(path: Path) -> frozenset[str]:
    """Return the names that a file checks values against or declares them as."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CHECKS:
            parts = [node.args[1]]
        elif isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns]
        for part in filter(None, parts):
            found |= {one.id for one in ast.walk(part) if isinstance(one, ast.Name)}
    return frozenset(found)


def section(title: str) -> str:
    """Return a section of the page, up to the next heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[tuple[str, ...]]:
    """Return the cells of a Markdown table that are code, by row; the heading has none."""
    found = [tuple(re.findall(r"`([^`]+)`", line)) for line in text.splitlines() if line.startswith("|")]
    return [row for row in found if row]


class TestContracts:
    def test_they_are_kept(self):
        code = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command(sys.argv[1:])"
        done = subprocess.run(
            [sys.executable, "-c", code, "--no-logo", "--no-cache"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout

    def test_every_layer_is_on_the_page_in_order(self):
        (block,) = re.findall(r"```text\n(.*?)```", section("Layers"), re.DOTALL)
        shown = [line.split(", ") for line in block.splitlines()]
        assert shown == [layer.split(" | ") for layer in CONTRACTS["core-layers"]["layers"]]

    def test_every_folder_is_on_the_page(self):
        parents = [CORE, ROOT / "plugins" / "slideseek_components", ROOT / "plugins" / "slideseek_apps"]
        there = {
            f"{child.relative_to(ROOT)}/"
            for parent in parents
            for child in parent.iterdir()
            if (child / "__init__.py").is_file()
        }
        assert {row[0] for row in rows(section("Folders"))} == there

    def test_every_edge_between_applications_is_on_the_page(self):
        allowed = {
            tuple(side.strip().split(".")[1] for side in edge.split("->"))
            for edge in CONTRACTS["applications-apart"]["ignore_imports"]
        }
        assert {row[:2] for row in rows(section("Applications and each other"))} == allowed

    def test_what_components_may_not_import_is_what_the_page_says(self):
        """Nothing above the archive: its own layer's other modules and every layer over it, but for the entry."""
        layers = [layer.split(" | ") for layer in CONTRACTS["core-layers"]["layers"]]
        place = next(number for number, names in enumerate(layers) if "archive" in names)
        above = {name for names in layers[: place + 1] for name in names} - {"archive", "__main__"}
        assert set(CONTRACTS["components-know-core"]["forbidden_modules"]) == {
            "slideseek_apps",
            *(f"slideseek.{name}" for name in above),
        }

    def test_every_hook_is_on_the_page(self):
        assert set(re.findall(r"`(register_\w+)`", section("Hooks"))) == set(HOOKS.values())


def test_core_stays_small():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in CORE.rglob("*.py"))
    assert lines <= MAX_LINES_OF_CORE
    assert f"{MAX_LINES_OF_CORE:,} lines" in PAGE


@pytest.mark.parametrize("kind", KINDS)
def test_every_hook_has_two_bundled_implementations(kind):
    bundled = [entry for entry in load_registry(kinds=(kind,)).registrations() if entry.distribution == "slideseek"]
    assert len(bundled) >= 2


class TestProtocols:
    """A capability that nobody asks for does not exist: core asks for it, or the plugins listed, for a reason given."""

    NAMES = tuple(
        node.name
        for node in parsed(CORE / "interfaces.py").body
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Protocol" for base in node.bases)
    )
    PLUGINS = MappingProxyType(
        {
            # Slides are the one thing that core gives to components: what a slide can do is asked for there.
            "Outlined": "slideseek_components",
            "Pyramidal": "slideseek_components",
            # The work of a build is what core gives to executors.
            "Work": "slideseek_components",
            # What a component reports for people to see: nothing in core depends on it, the doctor shows it. The
            # conformance kit checks it, so it is part of the contract.
            "OffersPatches": "slideseek_apps/doctor",
            "Described": "slideseek_apps/doctor",
            # A benchmark takes an exact index where none is named. Indexes state it, and may not know the benchmark.
            "StatesExactness": "slideseek_apps",
        }
    )

    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_asked_for(self, name):
        if name in self.PLUGINS:
            files = list((ROOT / "plugins" / self.PLUGINS[name]).rglob("*.py"))
        else:
            files = [
                path for path in CORE.rglob("*.py") if path.name != "interfaces.py" and "testing" not in path.parts
            ]
        assert name in set().union(*map(asked, files))


class TestNames:
    """Core knows no component by name."""

    COMPONENTS = frozenset(
        entry.name
        for entry in load_registry(kinds=COMPONENT_KINDS).registrations()
        if entry.distribution == "slideseek"
    )
    # Names that are words of the field as well: a message may hold them.
    WORDS = frozenset({"mean", "max", "random", "grid", "sparse", "imported", "cosine"})
    # Names that are something else in core too: `sparse` is a kind of code, `imported` a fact that engines resolve.
    OTHER_MEANINGS = frozenset({"sparse", "imported"})

    def strings(self) -> Iterator[tuple[str, str]]:
        """Yield (where, text) of the strings of core, but for docstrings."""
        for path in sorted(CORE.rglob("*.py")):
            nodes = list(ast.walk(parsed(path)))
            docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value

    def test_no_string_is_a_name(self):
        named = [
            f"{where}: {text!r}" for where, text in self.strings() if text in self.COMPONENTS - self.OTHER_MEANINGS
        ]
        assert not named

    def test_no_message_holds_an_unmistakable_name(self):
        unmistakable = self.COMPONENTS - self.WORDS
        assert unmistakable >= {"yottixel", "gmm-fv", "mosaic", "hamming"}
        words = ((where, set(re.findall(r"[\w-]+", text.lower()))) for where, text in self.strings())
        named = [f"{where}: {', '.join(found)}" for where, said in words if (found := said & unmistakable)]
        assert not named


# Prints the files of the project in which a function ran, as JSON. What modules and classes run when they are imported
# does not count: reading a path through the code means reading functions.
TRACE = """
import inspect, json, sys, threading
from pathlib import Path

import slideseek, slideseek_apps, slideseek_components

ROOTS = tuple(str(Path(package.__file__).parent) + "/" for package in (slideseek, slideseek_apps, slideseek_components))
touched = set()

def seen(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        touched.add(frame.f_code.co_filename)

def traced(call):
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        call()
    except SystemExit as done:
        assert not done.code, done.code
    finally:
        sys.setprofile(None)
    print("FILES", json.dumps(sorted(file for file in touched if file.startswith(ROOTS))))
"""
SEARCH = """
from slideseek.cli import main
traced(lambda: main(["search", "s0", "-a", sys.argv[1]]))
"""
ENCODING = """
import numpy as np
from slideseek.plugins import load_registry
from slideseek.types import Bag

rng = np.random.default_rng(0)
bags = [Bag(f"s{n}", rng.normal(size=(30, 24)).astype("f4"), np.zeros((30, 2), "i4"), "colon") for n in range(8)]
encoder = load_registry().load("encoder", "deep-sbfv")(epochs=2, bits=64)
encoder.fit(bags, ["benign", "cancer"] * 4, [bag.slide_id for bag in bags])
traced(lambda: encoder.encode(bags[0]))
"""


def files_of(code: str, *arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TRACE + code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.rpartition("FILES ")[2])
    return found


class TestShortWays:
    """What one has to read to follow a call fits in a head."""

    def test_a_search_touches_few_files(self, tmp_path, paint_tiny, slideseek):
        """The engine is the default one, at the resolution of the slides."""
        (tmp_path / "slides").mkdir()
        for number in range(4):
            paint_tiny(tmp_path / "slides" / f"s{number}.png", number, number % 2 == 0, side=640)
        facts = [f"s{number},s{number}.png,p{number},colon,benign,0.5" for number in range(4)]
        manifest = tmp_path / "slides" / "manifest.csv"
        manifest.write_text("\n".join(["slide_id,filename,case_id,primary_site,diagnosis,mpp", *facts]) + "\n")
        default = (CORE / "default.toml").read_text(encoding="utf-8")
        assert "mpp = 0.25" in default
        (tmp_path / "small.toml").write_text(default.replace("mpp = 0.25", "mpp = 0.5"))
        archive = tmp_path / "archive"
        for arguments in (
            ("init", archive, "--config", tmp_path / "small.toml"),
            ("add", tmp_path / "slides", "--manifest", manifest, "-a", archive),
            ("build", "-a", archive),
        ):
            done = slideseek(*arguments)
            assert done.code == 0, done.err
        files = files_of(SEARCH, archive)
        assert any(file.endswith("searching/searcher.py") for file in files)
        assert len(files) <= MAX_FILES_OF_A_SEARCH, files
        guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        listed = rows(guide.partition("## The life of a query\n")[2].partition("\n## ")[0])
        assert {row[0] for row in listed} == {str(Path(file).relative_to(ROOT)) for file in files}

    def test_encoding_a_slide_touches_few_files(self):
        files = files_of(ENCODING)
        assert any(file.endswith("deep/encoder.py") for file in files)
        assert len(files) <= MAX_FILES_OF_AN_ENCODING, files
