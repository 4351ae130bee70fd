"""`slideseek bench`: compare engines, and score ranked lists that any system made.

The command `slideseek bench NAME` is `command` in `slideseek/cli/bench_NAME.py`.
"""

from __future__ import annotations

import importlib

import click

SUBCOMMANDS = ("run", "score", "report", "leaderboard", "check")


@click.group()
def command() -> None:
    """Compare engines: run a grid, score ranked lists, write the report."""


for _name in SUBCOMMANDS:
    command.add_command(importlib.import_module(f"{__name__}.{_name}").command, _name)
