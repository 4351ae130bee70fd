"""The language of a session: its commands by name, and how a line is understood."""

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
}
"""How the parameters of a search are given in a session, for errors about them."""


class SessionEnd(Exception):  # noqa: N818 - the end of a session is not an error
    """The person said goodbye."""


class CommandParser:
    """Understand lines and do what they say. A line is a command and its words; what follows a # alone is a remark."""

    def __init__(self, pictures: Pictures) -> None:
        every = (
            *search_commands.COMMANDS,
            *relevance_commands.COMMANDS,
            *SlideCommands(pictures).commands(),
            *file_commands.COMMANDS,
            Command("help", "help [COMMAND]", "this list, or one command", self._help, ("command",)),
            Command("quit", "quit", "end the session", _quit),
        )
        self.commands: Mapping[str, Command] = {command.name: command for command in every}

    def find(self, name: str) -> Command:
        """Return the command of a name, an alias or an unmistakable beginning; else a `UsageError` with the nearest."""
        known = ALIASES.get(name, name)
        if known in self.commands:
            return self.commands[known]
        starting = [one for one in self.commands if one.startswith(name)]
        if len(starting) == 1:
            return self.commands[starting[0]]
        shown = name if len(name) <= 40 else f"{name[:40]}..."
        if starting:
            raise UsageError(f"{shown!r} may be {' or '.join(starting)}", "write more of the word")
        near = nearest(name, [*self.commands, *ALIASES], cutoff=0.5)
        hint = f"did you mean {ALIASES.get(near, near)!r}?" if near else "'help' lists the commands"
        raise UsageError(f"no command {shown!r}", hint)

    def run_line(self, session: Session, line: str) -> None:
        """Do what a line says; an empty line and a remark say nothing. A line that was obeyed is remembered."""
        text = line.strip()
        if not text or text.startswith("#"):
            return
        name, _, rest = text.partition(" ")
        try:
            self.find(name).run(session, rest)
        except ParameterError as error:
            raise error.in_words_of(HOW_TO_GIVE) from error
        session.said.append(text)

    def _help(self, session: Session, text: str) -> None:
        if name := text.strip():
            command = self.find(name)
            click.echo(f"{command.usage}\n  {command.summary}")
            return
        print_table(("command", "what it does"), [[one.usage, one.summary] for one in self.commands.values()])


def _quit(session: Session, text: str) -> None:
    nothing_more(text, "quit")
    raise SessionEnd
