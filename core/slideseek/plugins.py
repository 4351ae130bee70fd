"""Find plugins, store what they register, and import a registered object on demand.

A plugin registers import strings, so listing imports nothing that is registered. A plugin that fails to load is
reported as `Broken`; the others still work. A plugin module may state `slideseek_api`, the version of the hooks and
protocols it was written for (`slideseek.hookspecs.API_VERSION`); one for a version that is not served is `Broken` too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, entry_points
from typing import Any, Literal, TextIO, TypeAlias, get_args

import pluggy

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import PluginError, SlideseekError, one_line
from slideseek.hookspecs import API_VERSION, OLDEST_API, PROJECT, Hooks

ComponentKind: TypeAlias = Literal["selector", "featurizer", "encoder", "index", "reranker"]
COMPONENT_KINDS: tuple[ComponentKind, ...] = get_args(ComponentKind)
"""The components of an engine, in the order of its stages."""
REQUIRED_KINDS: tuple[ComponentKind, ...] = ("selector", "featurizer", "encoder", "index")
"""The components every engine has; a reranker is optional."""

Kind: TypeAlias = Literal[
    "selector", "featurizer", "encoder", "index", "reranker", "reader", "executor", "command", "dataset"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
HOOKS: dict[Kind, str] = {
    "selector": "register_selectors",
    "featurizer": "register_featurizers",
    "encoder": "register_encoders",
    "index": "register_indexes",
    "reranker": "register_rerankers",
    "reader": "register_readers",
    "executor": "register_executors",
    "command": "register_commands",
    "dataset": "register_datasets",
}
DISABLED_VARIABLE = "SLIDESEEK_DISABLED_PLUGINS"
LIMIT_VARIABLE = "SLIDESEEK_IMPORT_SECONDS"
IMPORT_SECONDS, NOTICE_SECONDS = 300.0, 15.0
"""Seconds after which an import counts as hanging, and after which a person is informed: torch may take a minute."""
_redirecting, _redirected = threading.Lock(), list[TextIO]()
APPLICATIONS = "slideseek_apps"
"""The package of the bundled applications, each of which can be left out of an installation."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One object registered by a plugin. `target` is its import string, `package.module:Name`.

    editable: it is imported from a folder or a file that its author may be editing.
    """

    kind: Kind
    name: str
    target: str
    summary: str
    plugin: str
    distribution: str
    version: str
    editable: bool = False

    @property
    def owner(self) -> str:
        """Distribution and version, for messages."""
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that cannot be used, or only in part, and why, in one line."""

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

    def named(self, name: str) -> list[Registration]:
        """Return the registrations of a name, or of `distribution:name`, of any kind."""
        owner, _, plain = name.rpartition(":")
        return [e for e in self.entries if e.name == plain and owner in ("", e.distribution)]

    def find(self, kind: Kind, name: str) -> Registration:
        """Return the only registration of `name`, or of `name` by one distribution (`distribution:name`).

        An unknown name, or a plain one that two distributions register, is a `PluginError`.
        """
        plain = name.rpartition(":")[2]
        found = [e for e in self.named(name) if e.kind == kind]
        if len(found) == 1:
            return found[0]
        if found:
            owners = sorted(found, key=lambda e: e.owner)
            choice = " or ".join(repr(f"{e.distribution}:{plain}") for e in owners)
            other = next((e for e in owners if e.distribution != PROJECT), owners[0])
            fix = f"uninstall one, or disable it: {DISABLED_VARIABLE}={other.distribution}"
            raise PluginError(
                f"{kind} {name!r} is registered twice, by {' and by '.join(e.owner for e in owners)}",
                fix if kind == "command" else f"write {choice}, {fix}",
            )
        same = [f"{e.distribution}:{plain}" for e in self.named(plain) if e.kind == kind]  # by other distributions
        known = sorted({e.name for e in self.entries if e.kind == kind})
        near = did_you_mean(name, same or known)
        hint = near or f"available: {', '.join(same or known) or 'none'}"
        if self.broken:
            shown = self.broken[:2]
            why = "; ".join(f"{one.plugin!r} of {one.distribution} {one.version}: {one.reason}" for one in shown)
            hint = f"plugin {why} ({len(self.broken)} broken: see 'slideseek plugins list')" + (near and f"; or {near}")
        if self.disabled:
            hint += f" (or unset {DISABLED_VARIABLE}, which disables {', '.join(self.disabled)})"
        raise PluginError(f"no {kind} named {name!r}", hint)

    def load(self, kind: Kind, name: str) -> type[Any]:
        """Import the class registered under `name` and check that it has its kind's interface. Not for commands."""
        entry = self.find(kind, name)
        loaded = import_target(entry)
        where = f"{kind} {entry.name!r} of {entry.owner}"
        if not (isinstance(loaded, type) and dataclasses.is_dataclass(loaded)):
            raise PluginError(
                f"{where}: {entry.target!r} is not a dataclass", "put @dataclass on it: fields are options"
            )
        if wrong := interface_errors(kind, loaded):
            raise PluginError(f"{where}: class {loaded.__name__} {wrong}", "fix the class, or update the plugin")
        return loaded


def import_target(entry: Registration) -> Any:
    """Import the target of a registration; any failure is a `PluginError` that names the plugin."""
    where = f"{entry.kind} {entry.name!r} of {entry.owner}"
    module, separator, attribute = entry.target.partition(":")
    correct = f"correct the import string in {HOOKS[entry.kind]}()"
    if not (module and separator and attribute):
        raise PluginError(f"{where}: import string {entry.target!r} is not 'package.module:Name'", correct)
    try:
        with output_aside(), import_limit(where if entry.distribution != PROJECT else ""):
            return getattr(importlib.import_module(module), attribute)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # a plugin's import can raise anything; the user needs one line
        fix = "fix the module, or update the plugin"
        if isinstance(error, AttributeError | ModuleNotFoundError) and error.name in (module, attribute):
            fix = correct
        elif isinstance(error, ImportError):
            fix = "install what it needs, or update the plugin"
        elif isinstance(error, TypeError) and "MRO" in str(error):
            fix = "name only the most special base classes: one that another includes is left out"
        raise PluginError(f"{where} cannot be imported from {entry.target!r} ({one_line(error)})", fix) from error


def load_registry(
    extra: Sequence[tuple[str, object]] = (),
    disabled: Iterable[str] | None = None,
    kinds: Sequence[Kind] = COMPONENT_KINDS,
    files: Iterable[tuple[str, str, Callable[[], object]]] = (),
) -> Registry:
    """Collect what every installed plugin registers, of some kinds; by default the components of engines.

    extra: (name, module or object with hook implementations) used in addition to the installed ones, for tests and
    notebooks. disabled: plugin or distribution names to leave out; by default those in the environment variable
    SLIDESEEK_DISABLED_PLUGINS (comma-separated). files: plugin files of an archive, with name, version and loader.
    """
    if disabled is None:
        disabled = os.environ.get(DISABLED_VARIABLE, "").split(",")
    off = {name.strip() for name in disabled if name.strip()}
    entries: list[Registration] = []
    broken: list[Broken] = []
    skipped: list[str] = []

    def ask(name: str, distribution: str, version: str, editable: bool, load: Callable[[], object]) -> None:
        if name in off or distribution in off:
            skipped.append(name)
            return
        try:
            what = f"plugin {name!r} of {distribution} {version}" if distribution != PROJECT else ""
            with output_aside(), import_limit(what):
                plugin = load()
                found = collect(name, distribution, version, plugin, kinds, editable)
                unknown = unknown_hooks(plugin)
        except (Exception, SystemExit) as error:  # isolation: one broken plugin must not break the others
            reason = str(error) if isinstance(error, SlideseekError) else one_line(error)
            broken.append(Broken(name, distribution, version, reason))
            return
        entries.extend(found)
        if unknown:
            broken.append(Broken(name, distribution, version, unknown))

    points = sorted(entry_points(group=PROJECT), key=lambda p: (p.name, p.value))
    origins = {dist: _origin(dist) for dist in {point.dist for point in points} if dist}  # a slow file, read once
    for point in points:
        ask(point.name, *(origins[point.dist] if point.dist else (point.value, "-", False)), point.load)
    for name, version, load in files:
        ask(name, name, version, True, load)
    for name, plugin in extra:
        version = getattr(plugin, "__version__", "-")
        ask(name, name, version, version != "-", lambda plugin=plugin: plugin)  # type: ignore[misc]
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
    """Redirect what a plugin prints while loading to standard error: standard output is for results, such as JSON.

    Readers are loaded in the threads that open slides. Of several threads here, the last one to leave restores it.
    """
    with _redirecting:
        _redirected.append(sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _redirecting:
            before = _redirected.pop()
            if not _redirected:
                sys.stdout = before


def _origin(dist: Distribution) -> tuple[str, str, bool]:
    """Return the name of a distribution, its version, and whether it is installed to be edited.

    slideseek's own components state their revisions, so a checkout of slideseek does not count as edited.
    """
    metadata = dist.metadata
    name, version = metadata["Name"], metadata["Version"]
    if name == PROJECT:
        return name, version, False
    try:
        installed = json.loads(dist.read_text("direct_url.json") or "{}")
        return name, version, bool(installed.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):  # written by another tool
        return name, version, False


def collect(
    name: str, distribution: str, version: str, plugin: object, kinds: Sequence[Kind], editable: bool = False
) -> list[Registration]:
    """Call the hooks of one plugin in a separate manager: its errors do not affect other plugins."""
    _check_api(plugin)
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Hooks)
    manager.register(plugin, name)
    if not manager.get_hookcallers(plugin):
        raise PluginError("it registers nothing", "put @hookimpl on each hook")
    found: list[Registration] = []
    for kind in kinds:

        def register(item: str, target: str, summary: str, kind: Kind = kind) -> None:
            given: tuple[tuple[object, str], ...] = ((item, "name"), (target, "import string"), (summary, "summary"))
            for value, what in given:
                if not isinstance(value, str) or not value.strip():
                    raise TypeError(f"{HOOKS[kind]}: the {what} must be a non-empty string, not {value!r}")
            if ":" in item:
                raise ValueError(f"{HOOKS[kind]}: the name must not contain ':', which names a distribution: {item!r}")
            found.append(Registration(kind, item, target, summary, name, distribution, version, editable))

        register.__qualname__ = "register"  # for the message about missing arguments
        getattr(manager.hook, HOOKS[kind])(register=register)
    return found


def unknown_hooks(plugin: object) -> str:
    """Return a line about the hooks of a plugin that do not exist here, "" if there are none. The others are used."""
    marked = [name for name in dir(plugin) if hasattr(getattr(plugin, name, None), f"{PROJECT}_impl")]
    unknown = [name for name in marked if not hasattr(Hooks, name)]
    if not unknown:
        return ""
    hint = did_you_mean(unknown[0], list(HOOKS.values()), "update slideseek if the plugin is newer")
    return f"unknown hook {', '.join(unknown)}, not used: {hint}"


def _check_api(plugin: object) -> None:
    """Raise an error if a plugin was written for a version of the hooks and protocols that is not served."""
    version = getattr(plugin, "slideseek_api", API_VERSION)
    if isinstance(version, int) and OLDEST_API <= version <= API_VERSION:
        return
    served = str(API_VERSION) if OLDEST_API == API_VERSION else f"{OLDEST_API} to {API_VERSION}"
    if not isinstance(version, int):
        raise PluginError(f"slideseek_api is {version!r}, not a whole number", f"write slideseek_api = {API_VERSION}")
    outdated = "slideseek" if version > API_VERSION else "the plugin"
    raise PluginError(f"it is written for API version {version}; this slideseek serves {served}", f"update {outdated}")


def interface_errors(kind: Kind, loaded: type[Any]) -> str:
    """Return what is wrong with a class of a kind: members that are missing, capabilities that are not declared."""
    from slideseek.interfaces import CAPABILITIES, KIND_PROTOCOLS

    if kind not in KIND_PROTOCOLS:
        return "" if hasattr(loaded, "load") else "has no load()"
    needed = own_members(KIND_PROTOCOLS[kind])
    if missing := [name for name in needed if not _provides(loaded, name)]:
        return f"lacks {', '.join(missing)} of the {kind} interface"
    for protocol in CAPABILITIES[kind]:
        members = own_members(protocol)
        missing = [name for name in members if not _provides(loaded, name)]
        if protocol in loaded.__mro__:
            if missing:
                return f"names {protocol.__name__} as a base class and lacks {', '.join(missing)}"
            continue
        # An option or attribute may have any name. A method of this name would never be called.
        methods = [name for name in members if callable(vars(protocol)[name]) and name not in needed]
        if undeclared := [name for name in methods if callable(getattr(loaded, name, None))]:
            also = f"; {', '.join(missing)} would be needed too" if missing else ""
            return f"has {undeclared[0]}() and does not name {protocol.__name__} as a base class{also}"
    return ""


def own_members(protocol: type[Any]) -> tuple[str, ...]:
    """Return the names of the members a protocol itself adds to its bases, sorted."""
    return tuple(sorted(name for name in vars(protocol) if not name.startswith("_")))


def _provides(loaded: type[Any], name: str) -> bool:
    """Return whether a class or a base class defines a member; what a protocol only describes does not count."""
    bases = [base for base in loaded.__mro__ if not getattr(base, "_is_protocol", False) and base is not object]
    return any(name in vars(base) or name in vars(base).get("__annotations__", {}) for base in bases)


@contextlib.contextmanager
def import_limit(what: str) -> Iterator[None]:
    """Report an import that takes long, and end one that hangs with a `PluginError` that names it.

    what: the plugin in messages; "" for a bundled one, which is not limited.

    A hanging import holds locks that only its own thread can release, so it is interrupted there: the main thread by
    a signal, which also ends a blocking call, any other thread as soon as it runs Python code.
    """
    if not what:
        yield
        return
    limit = float(os.environ.get(LIMIT_VARIABLE) or IMPORT_SECONDS)
    importer, over = threading.current_thread(), threading.Event()
    # A shell starts background jobs with the signal ignored, and it would end nothing there.
    ignored = importer is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        over.set()
        if importer is threading.main_thread() and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(importer.ident or 0, signal.SIGINT)
        elif importer.ident is not None:
            import ctypes

            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(importer.ident), ctypes.py_object(KeyboardInterrupt)
            )

    slow = f"note    still importing {what}; it is stopped after {limit:g} s\n"
    notice = threading.Timer(min(NOTICE_SECONDS, limit / 2), sys.stderr.write, (slow,))
    end = threading.Timer(limit, interrupt)
    for timer in (notice, end):
        timer.daemon = True
        timer.start()
    try:
        yield
    except (KeyboardInterrupt, SystemExit):  # the latter where a library has its own handler of the signal
        if not over.is_set():
            raise
        raise PluginError(
            f"{what} did not finish importing in {limit:g} s",
            f"update or uninstall the plugin; set {LIMIT_VARIABLE} to allow more time",
        ) from None
    finally:
        notice.cancel()
        end.cancel()
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
