"""Parse the lines of a session and run the commands they name."""

from __future__ import annotations

from collections.abc import Mapping

import click

from slideseek.cli.output import print_table
from slideseek.did_you_mean import nearest
from slideseek.errors import ParameterError, UsageError
from slideseek_apps.session import file_commands, relevance_commands, search_commands
from slideseek_apps.session.command_spec import Command, nothing_more
from slideseek_apps.session.search_session import Session
from slideseek_apps.session.slide_commands import SlideCommands
from slideseek_apps.session.terminal_pictures import Pictures

ALIASES = {"exit": "quit", "?": "help", "find": "search", "filter": "where"}


HOW_TO_GIVE = {
    "k": "write: k 5",
    "kind": "write one of --region, --patch and --case",
    "region": "write: search QUERY --region FILE.geojson --annotation NAME",
    "site": "write: search QUERY --site SITE",
    "center": "write: search QUERY --center CENTER",
    "options": "write: search QUERY --set NAME=VALUE",
}
"""How the parameters of a search are given in a session, for errors about them."""


class SessionEnd(Exception):  # noqa: N818 - the end of a session is not an error
    """The user ended the session."""


class CommandParser:
    """Parse and run lines. A line is a command with its arguments; a line that starts with # is a comment."""

    def __init__(self, pictures: Pictures) -> None:
        every = (
            *search_commands.COMMANDS,
            *relevance_commands.COMMANDS,
            *SlideCommands(pictures).commands(),
            *file_commands.COMMANDS,
            Command("help", "help [COMMAND]", "show this list, or help on one command", self._help, ("command",)),
            Command("quit", "quit", "end the session", _quit),
        )
        self.commands: Mapping[str, Command] = {command.name: command for command in every}

    def find(self, name: str) -> Command:
        """Return the command for a name, an alias or an unambiguous prefix, else raise a `UsageError`."""
        known = ALIASES.get(name, name)
        if known in self.commands:
            return self.commands[known]
        starting = [one for one in self.commands if one.startswith(name)]
        if len(starting) == 1:
            return self.commands[starting[0]]
        shown = name if len(name) <= 40 else f"{name[:40]}..."
        if starting:
            raise UsageError(f"{shown!r} is ambiguous: {' or '.join(starting)}", "type more letters")
        near = nearest(name, [*self.commands, *ALIASES], cutoff=0.5)
        hint = f"did you mean {ALIASES.get(near, near)!r}?" if near else "'help' lists the commands"
        raise UsageError(f"no command {shown!r}", hint)

    def run_line(self, session: Session, line: str) -> None:
        """Run one line. Empty lines and comments do nothing. Lines that succeed are remembered for `save`."""
        text = line.strip()
        if not text or text.startswith("#"):
            return
        name, _, rest = text.partition(" ")
        try:
            self.find(name).run(session, rest)
        except ParameterError as error:
            raise error.in_words_of(HOW_TO_GIVE) from error
        session.lines.append(text)

    def _help(self, session: Session, text: str) -> None:
        if name := text.strip():
            command = self.find(name)
            click.echo(f"{command.usage}\n  {command.summary}")
            return
        print_table(("command", "what it does"), [[one.usage, one.summary] for one in self.commands.values()])


def _quit(session: Session, text: str) -> None:
    nothing_more(text, "quit")
    raise SessionEnd
