"""`slideseek serve`: browse and search an archive in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_argument, archive_option, chosen_archive, json_option, open_archive
from slideseek.cli.output import say

DEFAULT_PORT = 8765


@click.command()
@archive_argument
@archive_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port on this machine; 0 takes any free port.",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@json_option
def command(argument: Path | None, folder: Path | None, port: int, open_page: bool, as_json: bool) -> None:
    """Browse and search ARCHIVE in the browser, on this machine only.

    Prints an address with a random key: open it once. Stop with Ctrl-C.
    """
    import json
    import signal
    import sys

    from slideseek.errors import SlideseekError

    out = sys.stdout  # while components load in the background, sys.stdout is redirected to standard error
    with open_archive(chosen_archive(argument, folder)) as archive:
        root = archive.root
    try:
        from slideseek_apps.viewer.server import serving
    except ModuleNotFoundError as error:
        raise SlideseekError(
            f"the viewer needs {error.name}, which is not installed", "pip install 'slideseek[serve]'"
        ) from error
    with serving(root, port) as running:
        if as_json:
            click.echo(json.dumps({"url": running.url, "origin": running.origin, "token": running.token}), file=out)
        else:
            click.echo(running.url, file=out)
            say(f"serving {root.name} on this machine only; stop with Ctrl-C")
        if open_page:
            click.launch(running.url)
        try:
            # Service managers send SIGTERM: uploads must be deleted then too.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            running.wait()
        except KeyboardInterrupt:
            say("stopped")
