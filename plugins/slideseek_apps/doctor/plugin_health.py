"""Check the plugins: whether they load, pass the quick conformance checks, and have their weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, cast

from slideseek.boundary import Owner
from slideseek.config import ComponentConfig, make_component
from slideseek.errors import PluginError, SlideseekError, UsageError, one_line
from slideseek.interfaces import Described, Fingerprinted, implements
from slideseek.plugins import ComponentKind, Registration, Registry
from slideseek_apps.doctor.finding import Finding, State, counted
from slideseek_apps.testing.components import component_checks
from slideseek_apps.testing.run import run_checks

BUNDLED = "slideseek"


def look_at_plugins(registry: Registry) -> Iterator[Finding]:
    """Yield findings about plugins and components that do not load or do not conform."""
    for broken in registry.broken:
        where = f"plugin {broken.plugin} of {broken.distribution} {broken.version}"
        fix = f"update it, or leave it out with SLIDESEEK_DISABLED_PLUGINS={broken.plugin}"
        yield Finding("plugins", where, "fail", broken.reason, fix)
    for name in registry.disabled:
        yield Finding("plugins", name, "warn", "disabled", "unset SLIDESEEK_DISABLED_PLUGINS to use it")
    sound: list[Registration] = []
    for entry in registry.registrations():
        finding = _component(registry, entry)
        if finding is None:
            sound.append(entry)
        else:
            yield finding
    readers = [entry.name for entry in sound if entry.kind == "reader"]
    parts = counted(len(sound) - len(readers), "component")
    yield Finding("plugins", "components", "ok", f"{parts} load and pass the quick checks")
    yield Finding("plugins", "readers", "ok", ", ".join(readers) or "none")


def look_at_weights(registry: Registry) -> Iterator[Finding]:
    """Yield which featurizers have their weights. Missing weights only matter to an engine that uses them."""
    present: list[str] = []
    absent: list[str] = []
    for entry in registry.registrations("featurizer"):
        try:
            made = make_component(registry, ComponentConfig("featurizer", entry.name, {}), entry.name)
        except SlideseekError:
            continue  # reported with the plugins, or it needs options that only an engine sets
        if not implements(made, Described):
            continue
        try:
            card = Owner.of(registry, "featurizer", entry.name).call("card()", made.card)
        except SlideseekError as error:
            yield Finding("weights", entry.name, "fail", error.cause, error.fix)
            continue
        if card.weights:
            (present if card.present else absent).append(entry.name)
    yield Finding("weights", "present", "ok", ", ".join(present) or "none")
    if absent:
        yield Finding("weights", "missing", "ok", f"{', '.join(absent)}: only needed by engines that use them")


def _component(registry: Registry, entry: Registration) -> Finding | None:
    """Return what is wrong with a component, or None."""
    name = f"{entry.kind} {entry.name}"
    try:
        loaded = registry.load(entry.kind, entry.name)
    except PluginError as error:
        missing = isinstance(error.__cause__, ImportError)
        fix = f"pip install '{BUNDLED}[{entry.name}]'" if missing and entry.distribution == BUNDLED else error.fix
        # An extra is optional; a third-party component is meant to work.
        state: State = "warn" if missing and entry.distribution == BUNDLED else "fail"
        return Finding("plugins", name, state, error.cause, fix or "update the plugin")
    kind = cast("ComponentKind", entry.kind)
    # A featurizer is judged by its card instead: its checks would read weights. A reader is checked by loading it.
    if entry.kind in ("featurizer", "reader") or _needs_options(loaded):
        return None
    try:
        # Constructed once outside the checks, to report a missing extra as such and not as a failed check.
        made = make_component(registry, ComponentConfig(kind, entry.name, {}), entry.name)
    except SlideseekError as error:
        return Finding("plugins", name, "warn", error.cause, error.fix or "install what it needs")
    try:
        if implements(made, Fingerprinted):
            made.fingerprint()
    except UsageError:
        return None  # it needs options that only an engine sets, such as the name of a model
    except Exception as error:  # a plugin may raise anything
        return Finding("plugins", name, "fail", one_line(error), f"see 'slideseek plugins check {entry.name}'")
    try:
        results = run_checks(kind, loaded, component_checks(kind))
    except Exception as error:  # a plugin may raise anything
        fix = f"see 'slideseek plugins check {entry.name}'"
        return Finding("plugins", name, "fail", one_line(error), fix)
    failed = [result for result in results if not result.passed]
    if not failed:
        return None
    fix = f"see 'slideseek plugins check {entry.name}'; update {entry.owner}"
    return Finding("plugins", name, "fail", f"{failed[0].name}: {failed[0].message}", fix)


def _needs_options(loaded: type[Any]) -> bool:
    return any(
        field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        for field in dataclasses.fields(loaded)
    )
