"""The checks for components of any kind."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

from slideseek.boundary import Owner
from slideseek.errors import PluginError, UsageError
from slideseek.interfaces import Fingerprinted
from slideseek.options import AT_QUERY, changed_copy, nested_kind, option_types
from slideseek.plugins import Kind, interface_errors
from slideseek_apps.testing.checks import Check, Make, demand, having, prepared, require
from slideseek_apps.testing.option_descriptions import describe


def options_are_fields(make: Make) -> None:
    """The component is a dataclass whose fields are its options; learnt state is not among them."""
    component = make()
    name = type(component).__name__
    fix = "put @dataclass on the class and declare every option as a field"
    demand(dataclasses.is_dataclass(component) and not isinstance(component, type), f"a {name}, which is not one", fix)
    types = option_types(type(component))
    for spec in dataclasses.fields(component):
        if spec.init:
            fix = "drop repr=False and compare=False, or declare it as learnt state with field(init=False)"
            passed = not spec.name.endswith("_") and spec.repr and spec.compare
            want = f"option {spec.name!r} to show in repr() and in comparisons, with no trailing underscore"
            require(passed, want, f"init=True, repr={spec.repr}, compare={spec.compare}", fix)
            value = getattr(component, spec.name)
            fix = "use int, float, bool, str, a path, None, a tuple of these, or another component"
            passed = bool(nested_kind(types[spec.name])[0]) or _plain(value)
            want = f"option {spec.name!r} to have a plain value that a TOML file can contain"
            require(passed, want, f"{type(value).__name__} {value!r}", fix)
        else:
            fix = f"write {spec.name.strip('_')}_: ... = field(init=False, repr=False, compare=False) for learnt state"
            passed = (spec.name.endswith("_") or spec.name.startswith("_")) and not spec.repr and not spec.compare
            want = (
                f"the field {spec.name!r}, not an option, to be named as state and left out of repr() and comparisons"
            )
            require(passed, want, f"init=False, repr={spec.repr}, compare={spec.compare}", fix)


def options_round_trip(make: Make) -> None:
    """A component recreated from its own options is equal to it and has the same repr."""
    component = make()
    again = dataclasses.replace(component)
    fix = "do not rewrite options in __post_init__, and keep eq=True on the dataclass"
    passed = again == component and repr(again) == repr(component)
    require(passed, f"a component recreated from its own options to be equal, {component!r}", repr(again), fix)
    fix = "use no random numbers and no clock when a component is created"
    require(make() == component, f"two fresh components to be equal, {component!r}", repr(make()), fix)


def fingerprint_is_stable(make: Make) -> None:
    """A component with a fingerprint returns the same text every time, also from a fresh component."""
    first, second = make(), make()
    texts = [first.fingerprint(), first.fingerprint(), second.fingerprint()]
    fix = "return what affects the output (the SHA-256 of weights, a revision), never a time, a path or an object's id"
    passed = len(set(texts)) == 1 and isinstance(texts[0], str) and bool(texts[0].strip())
    demand(passed, ", ".join(map(repr, texts)), fix)


def declarations_are_well_formed(make: Make) -> None:
    """`code_revision` is a whole number of the class if declared; the metadata of options are true or false."""
    component = make()
    revision = getattr(component, "code_revision", 1)
    fix = "write code_revision: ClassVar[int] = 1, and raise it when the same options give other results"
    require(type(revision) is int, "code_revision to be a whole number", repr(revision), fix)
    option = "code_revision" in {spec.name for spec in dataclasses.fields(component)}
    require(not option, "code_revision to belong to the class", "a field, which is an option", fix)
    for spec in dataclasses.fields(component):
        for key in ("affects_result", AT_QUERY):
            value = spec.metadata.get(key, True)
            require(isinstance(value, bool), f"{key} of {spec.name!r} to be true or false", repr(value), "write a bool")


def options_are_described(make: Make) -> None:
    """The docstring of the class or of a base class describes every option; `seed` explains itself."""
    kind = type(make())
    text = describe(kind)
    names = [spec.name for spec in dataclasses.fields(kind) if spec.init and spec.name not in ("seed", "code_revision")]
    missing = [name for name in names if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)]
    fix = f"add a line such as {missing[0] if missing else ''}: what it does, with its unit"
    require(not missing, "a description of every option", f"none of {', '.join(missing)}", fix)


def interface_is_complete(make: Make, kind: Kind) -> None:
    """The component has every member of its kind and of each capability it names, with their signatures."""
    component = make()
    name = type(component).__name__
    fix = "add what is missing, and name each capability of slideseek.interfaces as a base class"
    wrong = interface_errors(kind, type(component))
    demand(not wrong, f"{name}, which {wrong}", fix)
    try:
        Owner(kind, name, "this plugin").check_signatures(component)
    except PluginError as error:
        demand(False, error.cause, "use the parameters of the interface")


def component_checks(kind: Kind) -> tuple[Check, ...]:
    """Return the checks for components of any kind."""
    return prepared(interface_is_complete, kind=kind) + prepared(
        options_are_fields,
        options_round_trip,
        options_are_described,
        declarations_are_well_formed,
        *having(Fingerprinted, fingerprint_is_stable),
    )


def other_values(component: Any, name: str) -> list[Any]:
    """Return other values that an option accepts, at most two."""
    value, hint = getattr(component, name), option_types(type(component))[name]
    numbers = [value + 1, value * 2, value / 2, value - 1] if isinstance(value, int | float) else []
    tried = [not value] if isinstance(value, bool) else [type(value)(number) for number in numbers]
    found = []
    for other in (*tried, *(choice for choice in get_args(hint) if not isinstance(choice, type))):
        with contextlib.suppress(UsageError):
            changed_copy(component, {name: other})
            found.append(other)
    return [other for other in found if other != value][:2]


def _plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str | Path)
