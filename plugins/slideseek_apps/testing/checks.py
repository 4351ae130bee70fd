"""What a check is and how it fails."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from slideseek.errors import raised_at
from slideseek.interfaces import implements

Make: TypeAlias = Callable[[], Any]
"""Return a fresh component; called whenever a check needs one."""

Check: TypeAlias = Callable[[Make], None]
"""A named function with a one-line docstring; raises `CheckFailed` when the component does not pass."""


class CheckFailed(AssertionError):  # noqa: N818 - the outcome of a check, shown like pytest's own failures
    """A component that violates its interface: the expected result, the actual result, and a fix."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check. `message` is empty when it passed; `seconds` is wall time."""

    name: str
    summary: str
    passed: bool
    message: str
    seconds: float


def require(passed: bool, expected: str, got: str, fix: str) -> None:
    """Raise `CheckFailed` unless `passed`; the three texts are the parts of its message."""
    if not passed:
        raise CheckFailed(f"expected {expected}; got {got}. To fix it: {fix}.")


def demand(passed: bool, got: str, fix: str) -> None:
    """Fail unless `passed`, where the first line of the check's docstring says what is expected."""
    if not passed:
        raise _UnmetError(f"Got {got}. To fix it: {fix}.")


class _UnmetError(Exception):
    """What was got and a fix; `prepared` adds what was expected."""


def require_error(
    action: Callable[[], object], errors: tuple[type[Exception], ...], expected: str, fix: str
) -> Exception:
    """Run `action`, which must raise one of `errors`; any other outcome is a `CheckFailed`."""
    names = " or ".join(error.__name__ for error in errors)
    try:
        outcome = action()
    except errors as error:
        return error
    except Exception as error:  # the component's failure is the finding, of any type
        raise CheckFailed(f"expected {names} {expected}; got {described(error)}. To fix it: {fix}.") from error
    raise CheckFailed(f"expected {names} {expected}; got {_short(outcome)} and no error. To fix it: {fix}.")


def described(error: BaseException) -> str:
    """Format an exception as one line: its type, its message, and the line of the component that raised it."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ") + raised_at(error)


def having(protocol: type[Any], *functions: Callable[..., None]) -> tuple[Callable[..., None], ...]:
    """Return functions that check only components that name `protocol` as a base class; the others pass."""
    return _if(lambda component: implements(component, protocol), functions)


def lacking(protocol: type[Any], *functions: Callable[..., None]) -> tuple[Callable[..., None], ...]:
    """Return functions that check only components that do not name `protocol` as a base class; the others pass."""
    return _if(lambda component: not implements(component, protocol), functions)


def _if(wanted: Callable[[Any], bool], functions: tuple[Callable[..., None], ...]) -> tuple[Callable[..., None], ...]:
    def only(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def check(make: Make, **settings: Any) -> None:
            if wanted(make()):
                function(make, **settings)

        return check

    return tuple(map(only, functions))


def prepared(*functions: Callable[..., None], **settings: Any) -> tuple[Check, ...]:
    """Turn functions into checks: bound toy settings, same name and docstring, `CheckFailed` as the only failure."""
    return tuple(_prepared(function, settings) for function in functions)


def _prepared(function: Callable[..., None], settings: dict[str, Any]) -> Check:
    @functools.wraps(function)
    def check(make: Make) -> None:
        try:
            function(make, **settings)
        except CheckFailed:
            raise
        except _UnmetError as unmet:
            raise CheckFailed(f"expected: {summary_of(function)} {unmet}") from None
        except Exception as error:  # a component may raise anything; it is a finding, with the traceback as its cause
            got = f"Got {described(error)}."
            fix = "To fix it: follow the traceback, which pytest and SLIDESEEK_DEBUG=1 show."
            raise CheckFailed(f"expected: {summary_of(function)} {got} {fix}") from error

    return check


def summary_of(check: Callable[..., None]) -> str:
    """Return the first line of a check's docstring."""
    return (check.__doc__ or "").strip().partition("\n")[0]


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
