"""Run a session from a file or a pipe. The first line that fails stops it, and the error names that line."""

from __future__ import annotations

from collections.abc import Iterable

import click

from slideseek.errors import SlideseekError, UsageError
from slideseek_apps.session.command_parser import CommandParser, SessionEnd
from slideseek_apps.session.search_session import Session


def run_script(session: Session, parser: CommandParser, lines: Iterable[str], name: str) -> None:
    """Run lines one by one and echo each. An error is raised with the number of its line."""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text.replace("\t", " ").isprintable():
            raise UsageError(f"{name}, line {number}: this line is not text", "write one command per line, in UTF-8")
        if text and not text.startswith("#"):
            click.echo(f"> {text}")
        try:
            parser.run_line(session, text)
        except SessionEnd:
            return
        except SlideseekError as error:
            raise with_cause(error, f"{name}, line {number}: {error.cause}") from error


def with_cause(error: SlideseekError, cause: str) -> SlideseekError:
    """Return an error with another cause and the same fix and exit code."""
    made = SlideseekError(cause, error.fix)
    made.exit_code = error.exit_code
    return made
