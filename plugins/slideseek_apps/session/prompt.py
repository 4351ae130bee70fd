"""The interactive prompt: history, completion, and a toolbar with the settings of the next search."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from slideseek.errors import SlideseekError
from slideseek_apps.session.command_parser import CommandParser, SessionEnd
from slideseek_apps.session.completion import suggestions
from slideseek_apps.session.search_session import Session


class SessionCompleter(Completer):
    """Completions for prompt_toolkit."""

    def __init__(self, session: Session, parser: CommandParser) -> None:
        self._session, self._parser = session, parser

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for one in suggestions(self._session, self._parser, document.text_before_cursor):
            yield Completion(one.text, start_position=-one.length, display_meta=one.about)


def converse(session: Session, parser: CommandParser, history_file: Path | None) -> None:
    """Read and run lines until the user leaves. An error is printed and the session goes on."""
    prompt: PromptSession[str] = PromptSession(
        history=_history(session, history_file),
        completer=SessionCompleter(session, parser),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        bottom_toolbar=lambda: toolbar(session),
    )
    while True:
        try:
            line = prompt.prompt("slideseek> ")
        except KeyboardInterrupt:  # cancels the line, as in a shell
            continue
        except EOFError:
            return
        try:
            parser.run_line(session, line)
        except SessionEnd:
            return
        except SlideseekError as error:
            click.echo(f"error: {error.cause}", err=True)
            if error.fix:
                click.echo(f"  fix: {error.fix}", err=True)
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


def toolbar(session: Session) -> FormattedText:
    """Return engine, k, mode, filters and marks in one line."""
    parts = [f"engine {session.engine}", f"k {session.k}", session.mode]
    if session.same_patient:
        parts.append("own patient included")
    if session.other_centers:
        parts.append("other centres only")
    parts.append(" and ".join(session.where) if session.where else "no filter")
    if session.marks:
        good = sum(session.marks.values())
        parts.append(f"marked {good} relevant, {len(session.marks) - good} not")
    return FormattedText([("", f" {session.archive.root.name}: " + " | ".join(parts))])


def _history(session: Session, file: Path | None) -> History:
    """Keep lines in the user's history file, or for this session only if that cannot be written."""
    if file is None:
        return InMemoryHistory()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError as error:
        session.notify(f"note    the history of lines cannot be saved: {error}")
        return InMemoryHistory()
    return FileHistory(str(file))
