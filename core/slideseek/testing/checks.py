"""What a check is, how it fails, and the checks that hold for a component of any kind."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Make: TypeAlias = Callable[[], Any]
"""Return a fresh component; called anew whenever a check needs another one."""

Check: TypeAlias = Callable[[Make], None]
"""A named function with a one-line docstring; raises `CheckFailed` when the component does not pass."""


class CheckFailed(AssertionError):  # noqa: N818 - it reads as the outcome it is, beside pytest's own failures
    """A component that does not honour its interface: what was expected, what was got, how to mend it."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check. `message` is empty when it passed; `seconds` is wall time."""

    name: str
    summary: str
    passed: bool
    message: str
    seconds: float


def require(passed: bool, expected: str, got: str, mend: str) -> None:
    """Raise `CheckFailed` unless `passed`; the three texts are the parts of its message."""
    if not passed:
        raise CheckFailed(f"expected {expected}; got {got}. To mend it: {mend}.")


def require_error(
    action: Callable[[], object], errors: tuple[type[Exception], ...], expected: str, mend: str
) -> Exception:
    """Run `action`, which must raise one of `errors`; any other outcome is a `CheckFailed`."""
    names = " or ".join(error.__name__ for error in errors)
    try:
        outcome = action()
    except errors as error:
        return error
    except Exception as error:  # the component's own failure is the finding, whatever its type
        raise CheckFailed(f"expected {names} {expected}; got {described(error)}. To mend it: {mend}.") from error
    raise CheckFailed(f"expected {names} {expected}; got {_short(outcome)} and no error. To mend it: {mend}.")


def described(error: BaseException) -> str:
    """Say an exception in one line: its type and its message."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")


def prepared(*functions: Callable[..., None], **settings: Any) -> tuple[Check, ...]:
    """Return functions as checks: toy settings fixed, same name and docstring, and `CheckFailed` the only failure."""
    return tuple(_prepared(function, settings) for function in functions)


def _prepared(function: Callable[..., None], settings: dict[str, Any]) -> Check:
    @functools.wraps(function)
    def check(make: Make) -> None:
        try:
            function(make, **settings)
        except CheckFailed:
            raise
        except Exception as error:  # a component may raise anything; it is a finding, with the traceback as its cause
            got = f"Got {described(error)}."
            mend = "To mend it: call this check on your class and follow the traceback."
            raise CheckFailed(f"expected: {summary_of(function)} {got} {mend}") from error

    return check


def summary_of(check: Callable[..., None]) -> str:
    """Return the first line of a check's docstring."""
    return (check.__doc__ or "").strip().partition("\n")[0]


def options_are_fields(make: Make) -> None:
    """The component is a dataclass whose fields are its options; learnt state is kept out of them."""
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
                f"option {spec.name!r} to hold a plain value that a TOML file can give",
                f"{type(value).__name__} {value!r}",
                "use int, float, bool, str, a path, None or a tuple of these",
            )
        else:
            require(
                spec.name.endswith("_") and not spec.repr and not spec.compare,
                f"the learnt field {spec.name!r} to be init=False, repr=False, compare=False and end with '_'",
                f"init=False, repr={spec.repr}, compare={spec.compare}",
                f"write {spec.name.rstrip('_')}_: ... = field(init=False, repr=False, compare=False)",
            )


def options_round_trip(make: Make) -> None:
    """A component made again from its own options is equal to it and says so in its repr."""
    component = make()
    try:
        again = dataclasses.replace(component)
    except (TypeError, ValueError) as error:
        message = f"expected the component to be made again from its own options; got {described(error)}. "
        raise CheckFailed(
            f"{message}To mend it: keep the fields as they were given; derive values elsewhere."
        ) from error
    require(
        again == component and repr(again) == repr(component),
        f"a component made again from its own options to be equal, {component!r}",
        repr(again),
        "do not rewrite options in __post_init__, and keep eq=True on the dataclass",
    )
    require(
        make() == component,
        f"two fresh components to be equal, {component!r}",
        repr(make()),
        "draw nothing at random and read no clock when a component is made",
    )


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


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
