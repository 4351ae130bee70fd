"""The checks for components of any kind."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from slideseek.interfaces import Fingerprinted, implements
from slideseek.testing.checks import CheckFailed, Make, described, require


def options_are_fields(make: Make) -> None:
    """The component is a dataclass whose fields are its options; learnt state is not among them."""
    component = make()
    name = type(component).__name__
    require(
        dataclasses.is_dataclass(component) and not isinstance(component, type),
        "an instance of a dataclass, whose fields are its options",
        f"a {name}, which is not one",
        "put @dataclass on the class and declare every option as a field",
    )
    for spec in dataclasses.fields(component):
        if spec.init:
            require(
                not spec.name.endswith("_") and spec.repr and spec.compare,
                f"option {spec.name!r} to show in repr() and in comparisons, with no trailing underscore",
                f"init=True, repr={spec.repr}, compare={spec.compare}",
                "drop repr=False and compare=False, or declare it as learnt state with field(init=False)",
            )
            value = getattr(component, spec.name)
            require(
                _plain(value),
                f"option {spec.name!r} to have a plain value that a TOML file can contain",
                f"{type(value).__name__} {value!r}",
                "use int, float, bool, str, a path, None or a tuple of these",
            )
        else:
            require(
                (spec.name.endswith("_") or spec.name.startswith("_")) and not spec.repr and not spec.compare,
                f"the field {spec.name!r}, not an option, to be left out of repr() and comparisons and named as state",
                f"init=False, repr={spec.repr}, compare={spec.compare}",
                f"write {spec.name.strip('_')}_: ... = field(init=False, repr=False, compare=False) for what is learnt",
            )


def options_round_trip(make: Make) -> None:
    """A component recreated from its own options is equal to it and has the same repr."""
    component = make()
    try:
        again = dataclasses.replace(component)
    except (TypeError, ValueError) as error:
        message = f"expected the component to be recreated from its own options; got {described(error)}. "
        raise CheckFailed(
            f"{message}To fix it: keep the fields as they were given; derive values elsewhere."
        ) from error
    require(
        again == component and repr(again) == repr(component),
        f"a component recreated from its own options to be equal, {component!r}",
        repr(again),
        "do not rewrite options in __post_init__, and keep eq=True on the dataclass",
    )
    require(
        make() == component,
        f"two fresh components to be equal, {component!r}",
        repr(make()),
        "use no random numbers and no clock when a component is created",
    )


def fingerprint_is_stable(make: Make) -> None:
    """A component with a fingerprint returns the same text every time, also from a fresh component."""
    first, second = make(), make()
    if not implements(first, Fingerprinted):
        return
    texts = [first.fingerprint(), first.fingerprint(), second.fingerprint()]
    require(
        len(set(texts)) == 1 and isinstance(texts[0], str) and bool(texts[0].strip()),
        "the same text from fingerprint() every time",
        ", ".join(map(repr, texts)),
        "return what affects the output (the SHA-256 of weights, a revision), never a time, a path or an object's id",
    )


COMPONENT_CHECKS = (options_are_fields, options_round_trip, fingerprint_is_stable)


def require_protocol(make: Make, protocol: type) -> None:
    """Require that the component has every member of `protocol`."""
    component = make()
    missing = sorted(m for m in vars(protocol) if not m.startswith("_") and not hasattr(component, m))
    require(
        isinstance(component, protocol),
        f"every member of slideseek.interfaces.{protocol.__name__}",
        f"{type(component).__name__} without {', '.join(missing)}",
        "add what is missing, with the signature of the interface",
    )


def _plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str | Path)
