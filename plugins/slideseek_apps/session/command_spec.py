"""What a session command is, and how its arguments are split."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from slideseek.errors import UsageError

if TYPE_CHECKING:
    from slideseek_apps.session.search_session import Session

Completes: TypeAlias = Literal["slide", "condition", "engine", "rank", "mark", "switch", "file", "command", "like"]


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its usage, a one-line summary, and what completes each of its arguments.

    The last entry of `completes` applies to all further arguments. run: called with the session and the rest of the
    line.
    """

    name: str
    usage: str
    summary: str
    run: Callable[[Session, str], None]
    completes: tuple[Completes, ...] = ()


def split_words(text: str) -> list[str]:
    """Split the rest of a line into words as a shell does, with quotes."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot read {text!r}: {error}", "close the quote") from error


def exactly(words: list[str], count: int, usage: str) -> list[str]:
    """Return the words if their number is right, else raise a `UsageError`."""
    if len(words) != count:
        raise UsageError(f"expected {count} word(s), not {len(words)}", f"write: {usage}")
    return words


def nothing_more(text: str, usage: str) -> None:
    """Raise a `UsageError` if a command without arguments got any."""
    if text.strip():
        raise UsageError(f"unexpected {text.strip()!r}", f"write: {usage}")
