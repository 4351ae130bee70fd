"""Fill in the template of a plugin distribution."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from slideseek.errors import UsageError
from slideseek.plugins import COMPONENT_KINDS, HOOKS, Kind, load_registry
from slideseek.version import __version__

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PREFIX = "slideseek-"
KINDS: tuple[Kind, ...] = (*COMPONENT_KINDS, "reader")
"""The kinds that have a template."""

# Where each file of the template goes. The names on both sides are filled in like the texts.
_LAYOUT = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "init.py": "src/$package/__init__.py",
    "plugin.py": "src/$package/plugin.py",
    "$kind.py": "src/$package/$kind.py",
    "test_$kind.py": "tests/test_$kind.py",
}


def create(folder: Path, name: str, kind: Kind) -> Path:
    """Write a distribution with one working component of `kind` and return its folder.

    folder: the parent of the new folder, created if it does not exist. name: the component's name in a configuration,
    in kebab-case; the distribution is named `slideseek-NAME`. Nothing is overwritten: an existing folder that is not
    empty is a `UsageError`, and so is a name that an installed plugin already uses.
    """
    _refuse_bad_name(name, kind)
    distribution = name if name.startswith(_PREFIX) else _PREFIX + name
    made = folder / distribution
    if made.exists() and (not made.is_dir() or any(made.iterdir())):
        raise UsageError(f"{made} already exists", "choose another name or another folder")
    values = {
        "name": name,
        "kind": kind,
        "usage": _usage(name, kind),
        "hook": HOOKS[kind],
        "distribution": distribution,
        "package": distribution.replace("-", "_"),
        "class_name": _class_name(name),
        "minimum": ".".join(__version__.split(".")[:2]),
    }
    template = files("slideseek_apps.testing.scaffold") / "template"
    for source, place in _LAYOUT.items():
        text = (template / f"{Template(source).substitute(values)}.template").read_text(encoding="utf-8")
        target = made / Template(place).substitute(values)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(text).substitute(values), encoding="utf-8")
    (made / "src" / values["package"] / "py.typed").touch()
    return made


def _refuse_bad_name(name: str, kind: Kind) -> None:
    if kind not in KINDS:
        raise UsageError(f"no kind named {kind!r}", f"kinds: {', '.join(KINDS)}")
    if not _NAME.fullmatch(name):
        proposal = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()).strip("-")
        hint = f"such as {proposal!r}" if _NAME.fullmatch(proposal) else "such as 'my-encoder'"
        raise UsageError(f"{name!r} is not a name in kebab-case", f"use lower-case letters, digits and '-', {hint}")
    if keyword.iskeyword(_class_name(name)):
        raise UsageError(
            f"{name!r} would give the class name {_class_name(name)}, a Python keyword", "choose another name"
        )
    for entry in load_registry(kinds=KINDS).registrations(kind):
        if entry.name == name:
            raise UsageError(f"{kind} {name!r} is already registered by {entry.owner}", "choose another name")


def _usage(name: str, kind: Kind) -> str:
    """Return how a component is used, for the README of its distribution."""
    if kind == "reader":
        return "No configuration names a reader: `slideseek add FILE` finds it by the files it claims."
    key = "rerank" if kind == "reranker" else kind
    return f'Use it in the `slideseek.toml` of an archive:\n\n    {key} = {{ use = "{name}" }}'


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.removeprefix(_PREFIX).split("-"))
