"""What a command of the session's language is, and how its words are read."""

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
    """One command: how it is written, what it does in a line, and what its words are completed with, in order.

    The last of `completes` serves all further words. run: takes the session and the rest of the line.
    """

    name: str
    usage: str
    summary: str
    run: Callable[[Session, str], None]
    completes: tuple[Completes, ...] = ()


def split_words(text: str) -> list[str]:
    """Split the rest of a line into words as a shell does; quotes keep spaces together."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot read {text!r}: {error}", "close the quote") from error


def exactly(words: list[str], count: int, usage: str) -> list[str]:
    """Return the words if there are as many as there should be."""
    if len(words) != count:
        raise UsageError(f"{count} word(s) are wanted, not {len(words)}", f"write: {usage}")
    return words


def nothing_more(text: str, usage: str) -> None:
    """Refuse words after a command that takes none."""
    if text.strip():
        raise UsageError(f"cannot read {text.strip()!r}", f"write: {usage}")
