"""What people read is the plain English of the field: messages, help, docstrings, pages and docs."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UNITS = (
    "slide|patch|site|patient|hit|query|engine|feature|row|code|bag|cell|class|kind|file|line|level|seed|fold|epoch|"
    "variant|dataset|word|bit|stage|pixel|command|part|diagnosis|page|second|thread|label|value|protocol|component"
)
STILTED = {
    "one per: 'a row a slide'": rf"\b(an?|one|some|several|\d+|many|few|most) [\w-]+s? an? ({UNITS})\b(?!')",
    "bytes per slide": rf"\b(bytes|seconds|ms|rows|patches|hits|bits|lines|words|features) an? ({UNITS})\b",
    "report, say": r"\btold\b",
    "again, from the start": r"\banew\b",
    "fix, repair": r"\bmend(s|ed|ing)?\b",
    "query with": r"\b(are|is|was|were|be) asked with\b|\basks? with\b",
    "is not a": r"\b(is|are|was|were) no (?!longer\b|more\b|one\b|such\b|fewer\b|less\b|way\b|need\b)[a-z]+",
    "so many": r"\bof which there are\b",
}
# Sentences the pattern meets by accident: correct English as it stands.
FINE = {
    "an index an engine",  # never written; keeps the set from being empty
}


def prose() -> Iterator[tuple[str, str]]:
    """Yield (where, text) of everything a person may read."""
    for path in [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        if path.exists():
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for folder in ("core", "plugins"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if "vendor" in path.parts or not path.is_file():
                continue
            if path.suffix == ".py":
                tree = ast.parse(path.read_text(encoding="utf-8"))
                for node in ast.walk(tree):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield f"{name}:{node.lineno}", node.value
                    elif isinstance(node, ast.JoinedStr):
                        parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
                        yield f"{name}:{node.lineno}", "".join(map(str, parts))
            elif path.suffix in (".js", ".html", ".jinja", ".template", ".toml"):
                yield name, path.read_text(encoding="utf-8")


@cache
def plain_prose() -> list[tuple[str, str]]:
    """Return what a person may read, each text on one line; read once for all patterns."""
    return [(where, " ".join(text.split())) for where, text in prose()]


def stilted(meant: str) -> list[str]:
    found = []
    for where, plain in plain_prose():
        matches = re.finditer(STILTED[meant], plain, re.IGNORECASE)
        kept = [match.span() for match in matches if match[0].lower() not in FINE]
        found += [f"{where}: ...{plain[max(0, start - 40) : end + 30]}..." for start, end in kept]
    return sorted(set(found))


@pytest.mark.parametrize("meant", STILTED)
def test_nothing_stilted_is_said(meant):
    found = stilted(meant)
    assert not found, f"{len(found)} places, write instead ({meant}):\n" + "\n".join(found[:60])


@pytest.mark.parametrize(
    ("meant", "text"),
    [
        ("one per: 'a row a slide'", "a CSV with a row a slide"),
        ("bytes per slide", "625 bytes a slide"),
        ("report, say", "the cause is told"),
        ("again, from the start", "it is made anew"),
        ("fix, repair", "mend the plugin"),
        ("query with", "slides are asked with"),
        ("is not a", "it is no demonstration"),
        ("so many", "slides, of which there are so many"),
    ],
)
def test_the_patterns_find_what_they_are_for(meant, text):
    assert re.search(STILTED[meant], text)
