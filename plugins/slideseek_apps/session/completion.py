"""Complete a line: commands, slide ids, fields and their values, engines, ranks, files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from slideseek.errors import UsageError
from slideseek.searching.filters import NAMED_FIELDS
from slideseek_apps.session.command_parser import CommandParser
from slideseek_apps.session.command_spec import Completes
from slideseek_apps.session.relevance_commands import VERDICTS
from slideseek_apps.session.search_commands import OPTIONS, SWITCH
from slideseek_apps.session.search_session import Session

SIGNS = ("=", "!=", "<=", ">=", "<", ">")
SHOWN = 200
"""Limit on suggestions of one kind: more than a person reads."""


class Suggestion(NamedTuple):
    """A replacement for the last `length` characters of the line. about: a remark shown next to it."""

    text: str
    length: int
    about: str = ""


def suggestions(session: Session, parser: CommandParser, line: str) -> Iterator[Suggestion]:
    """Yield completions of the text before the cursor."""
    text = line.lstrip()
    name, space, rest = text.partition(" ")
    if not space:
        for command in parser.commands.values():
            if command.name.startswith(name):
                yield Suggestion(command.name, len(name), command.summary)
        return
    try:
        command = parser.find(name)
    except UsageError:
        return
    if not command.completes:
        return
    if command.completes == ("condition",):
        yield from _condition(session, rest)
        return
    before, _, word = rest.rpartition(" ")
    kind = command.completes[min(len(before.split()), len(command.completes) - 1)]
    options = OPTIONS if command.name == "search" and word.startswith("-") else _choices(session, parser, kind, word)
    for chosen, about in _starting(options, word):
        yield Suggestion(chosen if kind == "like" else quoted(chosen), len(word), about)


def _starting(options: Iterable[str | tuple[str, str]], word: str) -> Iterator[tuple[str, str]]:
    """Yield (text, about) for at most `SHOWN` options that start with a word, ignoring case."""
    shown = 0
    for option in options:
        text, about = option if isinstance(option, tuple) else (option, "")
        if text.lower().startswith(word.lower()) and shown < SHOWN:
            shown += 1
            yield text, about


def _choices(session: Session, parser: CommandParser, kind: Completes, word: str) -> Iterator[str | tuple[str, str]]:
    if kind == "slide" or (kind == "rank" and not word.isdecimal()):
        for slide_id, record in session.records.items():
            yield slide_id, ", ".join(part for part in (record.site, record.label) if part)
    if kind == "engine":
        yield from session.engines
    elif kind in ("rank", "mark") and session.asked is not None:
        if kind == "mark":
            yield from VERDICTS
        for found in session.asked.answer.found:
            yield str(found.rank), found.hit.slide_id
    elif kind == "switch":
        yield from SWITCH
    elif kind == "command":
        yield from parser.commands
    elif kind == "like":
        yield "like these"
    elif kind == "file":
        yield from _files(word)


def _files(word: str) -> Iterator[str]:
    """Yield the files and folders next to the one the word names."""
    folder = Path(word) if word.endswith("/") else Path(word).parent
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return
    for path in found:
        if not path.name.startswith("."):
            yield f"{path}/" if path.is_dir() else str(path)


def _condition(session: Session, text: str) -> Iterator[Suggestion]:
    """Yield fields, or after a field and its sign the values it has in the archive."""
    for sign in SIGNS:
        field, found, value = text.partition(sign)
        if found and field.strip() in session.values and not value.startswith("="):
            typed = value.lstrip()
            for known in session.values[field.strip()]:
                if known.lower().startswith(typed.lower()):
                    yield Suggestion(known, len(typed))
            return
    typed = text.lstrip()
    fields = {name: len(values) for name, values in session.values.items()} | {"id": len(session.records)}
    for name in sorted(fields, key=lambda name: (name not in NAMED_FIELDS, name)):
        if name.lower().startswith(typed.lower()):
            yield Suggestion(f"{name}=", len(typed), f"{fields[name]} values")
    for word in ("clear", "drop"):
        if session.where and word.startswith(typed):
            yield Suggestion(word, len(typed))


def quoted(text: str) -> str:
    """Put quotes around a word that contains spaces or special characters."""
    return f'"{text}"' if any(letter in text for letter in " '#\\") and '"' not in text else text
