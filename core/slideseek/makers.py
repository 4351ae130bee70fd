"""Who made a result: the distribution, version, code and revision of a component.

What counts is part of the key of every result, so results never outlive the code that made them:

- a component that declares `code_revision` counts by its distribution and that number, in every version;
- any other counts by its distribution, version and import string;
- one that inherits from a class of another package also counts by the revision of that class;
- one that is being edited (an editable install, a plugin file) also counts by the source of its package and of the
  modules of its base classes.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slideseek.digests import digest, sha256_file
from slideseek.errors import PluginError
from slideseek.hookspecs import PROJECT
from slideseek.plugins import Registration

FIRST_REVISION = 1
"""Revision of bundled components that older archives were built with; it adds nothing to keys, so they stay valid."""


@dataclass(frozen=True, slots=True)
class Maker:
    """The code behind a component. revision: as declared, None if it is not. source: digest of files being edited.

    inherited: revisions after the first one of base classes in other packages.
    """

    distribution: str
    version: str
    target: str
    revision: int | None
    source: str
    inherited: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.distribution} {self.version}"]
        if self.revision is not None and self.distribution != PROJECT:
            parts.append(f"revision {self.revision}")
        parts += [f"base class of revision {number}" for number in self.inherited]
        if self.source:
            parts.append(f"source {self.source[:12]}")
        return ", ".join(parts)

    @property
    def identity(self) -> list[Any] | None:
        """What keys contain: two makers with the same identity make the same results. None adds nothing to a key."""
        if self.distribution == PROJECT and self.revision == FIRST_REVISION:
            return None
        if self.revision is not None:
            return [self.distribution, self.revision, self.source, *self.inherited]
        return [self.distribution, self.version, self.target, self.source, *self.inherited]


def maker_of(entry: Registration, component: Any) -> Maker:
    """Return the maker of a component that was registered as `entry`."""
    kind = type(component)
    # A revision inherited from a class of another package says nothing about the code of this one.
    package = kind.__module__.partition(".")[0]
    stated = [(base.__module__.partition(".")[0] == package, vars(base).get("code_revision")) for base in kind.__mro__]
    revision = next((number for own, number in stated if own and number is not None), None)
    inherited = tuple(number for own, number in stated if not own and number not in (None, FIRST_REVISION))
    if revision is not None and type(revision) is not int:
        raise PluginError(
            f"{entry.kind} {entry.name!r} of {entry.owner}: code_revision is {revision!r}, not a whole number",
            "declare code_revision: ClassVar[int] = 1",
        )
    source = _source(kind) if entry.editable else ""
    return Maker(entry.distribution, entry.version, entry.target, revision, source, inherited)


def _source(kind: type[Any]) -> str:
    """Return a digest of the source behind a class: its whole package, and the modules of base classes elsewhere.

    Modules of slideseek and of Python are left out. The package counts as a whole because a component may use any
    module of it, at once or later.
    """
    package = kind.__module__.partition(".")[0]
    modules = sorted({base.__module__ for base in kind.__mro__})
    own = [
        sys.modules[name] for name in modules if name.partition(".")[0] not in (PROJECT, "builtins", "typing", "abc")
    ]
    files = {module.__name__: inspect.getsourcefile(module) for module in own}
    sources = {name: Path(file) for name, file in files.items() if file}
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        sources |= {file.relative_to(folder).as_posix(): file for file in Path(folder).rglob("*.py")}
    return digest([[name, sha256_file(file)] for name, file in sorted(sources.items())])
