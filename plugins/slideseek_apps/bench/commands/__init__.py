"""`slideseek bench`: compare engines, and score the ranked lists of any system.

The command `slideseek bench NAME` is `command` in the module `NAME` of this package.
"""

from __future__ import annotations

import importlib

import click

SUBCOMMANDS = ("run", "score", "report", "submit", "leaderboard", "check", "paper")


@click.group()
def command() -> None:
    """Compare engines: run a grid, score ranked lists, write the report."""


for _name in SUBCOMMANDS:
    command.add_command(importlib.import_module(f"{__name__}.{_name}").command, _name)
