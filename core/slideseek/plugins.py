"""Find plugins, store what they register, and import a registered object on demand.

A plugin registers import strings, so listing imports nothing that is registered. A plugin that fails to load is
reported as `Broken`; the others still work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, TypeAlias, get_args

import pluggy

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import PluginError, one_line
from slideseek.hookspecs import PROJECT, Hooks

ComponentKind: TypeAlias = Literal["selector", "featurizer", "encoder", "index"]
COMPONENT_KINDS: tuple[ComponentKind, ...] = get_args(ComponentKind)
"""The four components of an engine, in the order of its stages."""

Kind: TypeAlias = Literal["selector", "featurizer", "encoder", "index", "command", "dataset"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HOOKS: dict[Kind, str] = {
    "selector": "register_selectors",
    "featurizer": "register_featurizers",
    "encoder": "register_encoders",
    "index": "register_indexes",
    "command": "register_commands",
    "dataset": "register_datasets",
}
DISABLED_VARIABLE = "SLIDESEEK_DISABLED_PLUGINS"
APPLICATIONS = "slideseek_apps"
"""The package of the bundled applications, each of which can be left out of an installation."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One object registered by a plugin. `target` is its import string, `package.module:Name`."""

    kind: Kind
    name: str
    target: str
    summary: str
    plugin: str
    distribution: str
    version: str

    @property
    def owner(self) -> str:
        """Distribution and version, for messages."""
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that cannot be used, and why, in one line."""

    plugin: str
    distribution: str
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Registry:
    """What the installed plugins provide, of the requested kinds. Created by `load_registry`; never global."""

    entries: tuple[Registration, ...] = ()
    broken: tuple[Broken, ...] = ()
    disabled: tuple[str, ...] = field(default=())

    def registrations(self, kind: Kind | None = None) -> tuple[Registration, ...]:
        """Return what is registered, ordered by kind, then name."""
        chosen = [e for e in self.entries if kind is None or e.kind == kind]
        return tuple(sorted(chosen, key=lambda e: (KINDS.index(e.kind), e.name, e.distribution)))

    def find(self, kind: Kind, name: str) -> Registration:
        """Return the only registration of `name`; an unknown name or one registered twice is a `PluginError`."""
        found = [e for e in self.entries if e.kind == kind and e.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            owners = " and ".join(sorted(e.owner for e in found))
            raise PluginError(
                f"{kind} {name!r} is registered twice, by {owners}",
                f"uninstall one, or set {DISABLED_VARIABLE} to the plugin you do not want",
            )
        known = sorted({e.name for e in self.entries if e.kind == kind})
        hint = did_you_mean(name, known, f"available: {', '.join(known) or 'none'}")
        if self.broken:
            hint += f" ({len(self.broken)} broken: see 'slideseek plugins list')"
        if self.disabled:
            hint += f" (or unset {DISABLED_VARIABLE}, which disables {', '.join(self.disabled)})"
        raise PluginError(f"no {kind} named {name!r}", hint)

    def load(self, kind: Kind, name: str) -> type[Any]:
        """Import the class registered under `name` and check that it has its kind's interface. Not for commands."""
        entry = self.find(kind, name)
        loaded = import_target(entry)
        where = f"{kind} {name!r} of {entry.owner}"
        if not (isinstance(loaded, type) and dataclasses.is_dataclass(loaded)):
            raise PluginError(f"{where}: {entry.target!r} is not a dataclass; a component's fields are its options")
        if missing := _missing_members(kind, loaded):
            raise PluginError(f"{where}: class {loaded.__name__} lacks {', '.join(missing)} of the {kind} interface")
        return loaded


def import_target(entry: Registration) -> Any:
    """Import the target of a registration; any failure is a `PluginError` that names the plugin."""
    where = f"{entry.kind} {entry.name!r} of {entry.owner}"
    module, separator, attribute = entry.target.partition(":")
    if not (module and separator and attribute):
        raise PluginError(f"{where}: import string {entry.target!r} is not 'package.module:Name'")
    try:
        with output_aside():
            return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a plugin's import can raise anything; the user needs one line
        raise PluginError(
            f"{where} cannot be imported from {entry.target!r} ({one_line(error)})",
            "install what it needs, or update the plugin",
        ) from error


def load_registry(
    extra: Sequence[tuple[str, object]] = (),
    disabled: Iterable[str] | None = None,
    kinds: Sequence[Kind] = COMPONENT_KINDS,
) -> Registry:
    """Collect what every installed plugin registers, of some kinds; by default the components of engines.

    extra: (name, module or object with hook implementations) used in addition to the installed ones, for tests and
    notebooks. disabled: plugin or distribution names to leave out; by default those in the environment variable
    SLIDESEEK_DISABLED_PLUGINS (comma-separated).
    """
    if disabled is None:
        disabled = os.environ.get(DISABLED_VARIABLE, "").split(",")
    off = {name.strip() for name in disabled if name.strip()}
    entries: list[Registration] = []
    broken: list[Broken] = []
    skipped: list[str] = []

    def ask(name: str, distribution: str, version: str, load: Callable[[], object]) -> None:
        if name in off or distribution in off:
            skipped.append(name)
            return
        try:
            with output_aside():
                entries.extend(collect(name, distribution, version, load(), kinds))
        except (Exception, SystemExit) as error:  # isolation: one broken plugin must not break the others
            broken.append(Broken(name, distribution, version, one_line(error)))

    for point in sorted(entry_points(group=PROJECT), key=lambda p: (p.name, p.value)):
        distribution, version = _origin(point)
        ask(point.name, distribution, version, point.load)
    for name, plugin in extra:
        ask(name, name, "-", lambda plugin=plugin: plugin)  # type: ignore[misc]
    return Registry(tuple(entries), tuple(broken), tuple(skipped))


@contextlib.contextmanager
def needs_application(name: str, purpose: str) -> Iterator[None]:
    """Import from another application under this: where that one is missing, the error says who needs it.

    purpose: what cannot be done without it, in the singular, such as "an HTML page of hits".
    """
    package = f"{APPLICATIONS}.{name}"
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package and not (error.name or "").startswith(f"{package}."):
            raise
        raise PluginError(
            f"{purpose} needs the application {name!r}, which is not installed",
            "install slideseek with all its applications: pip install --force-reinstall slideseek",
        ) from error


@contextlib.contextmanager
def output_aside() -> Iterator[None]:
    """Redirect what a plugin prints while loading to standard error: standard output is for results, such as JSON."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _origin(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist else (point.value, "-")


def collect(name: str, distribution: str, version: str, plugin: object, kinds: Sequence[Kind]) -> list[Registration]:
    """Call the hooks of one plugin in a separate manager: its errors do not affect other plugins."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Hooks)
    manager.register(plugin, name)
    manager.check_pending()  # a misspelt hook name is an error
    if not manager.get_hookcallers(plugin):
        raise LookupError("it registers nothing (is @hookimpl missing on a hook?)")
    found: list[Registration] = []
    for kind in kinds:

        def register(item: str, target: str, summary: str, kind: Kind = kind) -> None:
            given: tuple[tuple[object, str], ...] = ((item, "name"), (target, "import string"), (summary, "summary"))
            for value, what in given:
                if not isinstance(value, str) or not value.strip():
                    raise TypeError(f"{HOOKS[kind]}: the {what} must be a non-empty string, not {value!r}")
            found.append(Registration(kind, item, target, summary, name, distribution, version))

        getattr(manager.hook, HOOKS[kind])(register=register)
    return found


def _missing_members(kind: Kind, loaded: type[Any]) -> list[str]:
    """Return the members of the kind's interface that the class lacks."""
    from slideseek import interfaces

    protocols: dict[Kind, type] = {
        "selector": interfaces.Selector,
        "featurizer": interfaces.Featurizer,
        "encoder": interfaces.Encoder,
        "index": interfaces.Index,
    }
    wanted = sorted(m for m in vars(protocols[kind]) if not m.startswith("_")) if kind in protocols else ["load"]
    return [m for m in wanted if not hasattr(loaded, m) and m not in getattr(loaded, "__annotations__", {})]
