"""`slideseek session`: search interactively."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from slideseek.cli.options import archive_argument, archive_option, chosen_archive, open_archive
from slideseek.cli.output import say


@click.command()
@archive_argument
@archive_option
@click.option("--engine", "name", help="The engine to start with (default: the first one configured).")
@click.option("--script", type=click.Path(path_type=Path), help="Run the commands in this file, then exit.")
@click.option(
    "--pictures",
    type=click.Choice(["auto", "kitty", "iterm", "sixel", "blocks", "none"]),
    default="auto",
    show_default=True,
    help="How the terminal shows pictures.",
)
def command(argument: Path | None, folder: Path | None, name: str | None, script: Path | None, pictures: str) -> None:
    """Search ARCHIVE interactively. It is loaded once, then queries take milliseconds.

    'help' lists the commands. TAB completes commands, slide ids, fields, values and engines. Commands can also come
    from --script FILE or a pipe; the first one that fails then ends the session with its line number and a non-zero
    exit code.
    """
    import os
    import shlex
    from typing import cast

    from platformdirs import user_state_path

    from slideseek_apps.session.command_parser import CommandParser
    from slideseek_apps.session.script import run_script
    from slideseek_apps.session.search_session import Session
    from slideseek_apps.session.terminal_pictures import PictureProtocol, Pictures, detect

    interactive = script is None and sys.stdin.isatty()
    archive = chosen_archive(argument, folder)
    with open_archive(archive) as opened:
        protocol = (
            cast("PictureProtocol", pictures) if pictures != "auto" else detect(os.environ) if interactive else "none"
        )
        session = Session(opened, opened.config.engine(name).name, say)
        parser = CommandParser(Pictures(protocol))
        searcher = session.searcher
        click.echo(
            f"{opened.root.name}: {len(searcher.index.ids)} slides, engine {session.engine} ({searcher.engine.spec});"
            " 'help' lists the commands"
        )
        if script is not None:
            with script.open(encoding="utf-8", errors="surrogateescape") as lines:
                run_script(session, parser, lines, script.name)
        elif interactive:
            from slideseek_apps.session.prompt import converse

            converse(session, parser, user_state_path("slideseek") / "session-history")
            where = f" -a {shlex.quote(str(archive))}" if archive is not None else ""
            click.echo(f"session {session.id}: 'slideseek report --session {session.id}{where}' shows it as a page")
        else:
            run_script(session, parser, sys.stdin, "standard input")
