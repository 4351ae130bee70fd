"""`slideseek serve`: browse and search archives in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option, chosen_archive, json_option, open_archive
from slideseek.cli.output import say

DEFAULT_PORT = 8765
SECRET_VARIABLE, SECRET_LENGTH = "SLIDESEEK_PROXY_SECRET", 32
"""Where the secret of a reverse proxy is read from, and the fewest characters it must have."""


@click.command()
@click.argument("archives", nargs=-1, metavar="[ARCHIVE]...", type=click.Path(path_type=Path))
@archive_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port on this machine; 0 takes any free port.",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--read-only",
    is_flag=True,
    help="Write nothing in the archives: searches are not logged, no collections or annotations are kept.",
)
@click.option(
    "--files",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="People may query with the slide files below this folder (may be repeated).",
)
@click.option(
    "--public-url",
    metavar="URL",
    help=f"The address of a reverse proxy that signs people in; its secret is read from {SECRET_VARIABLE}.",
)
@click.option(
    "--user-header",
    default="X-Remote-User",
    show_default=True,
    help="With --public-url: the header in which the proxy names the user.",
)
@json_option
def command(
    archives: tuple[Path, ...],
    folder: Path | None,
    port: int,
    open_page: bool,
    read_only: bool,
    files: tuple[Path, ...],
    public_url: str | None,
    user_header: str,
    as_json: bool,
) -> None:
    """Browse and search archives in the browser, on this machine only.

    Prints an address with a random key: open it once. Stop with Ctrl-C.
    """
    import json
    import os
    import signal
    import sys
    import threading

    from slideseek_apps.viewer.access_control import Proxy
    from slideseek_apps.viewer.server import serving

    out = sys.stdout  # while components load in the background, sys.stdout is redirected to standard error
    first = chosen_archive(archives[0] if archives else None, folder)
    roots = [_root(archive) for archive in (first, *archives[1:])]
    proxy = Proxy(*_proxy(public_url, user_header)) if public_url is not None else None
    others = set(threading.enumerate())
    # Service managers send SIGTERM, a closed terminal SIGHUP: uploads must be deleted then too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with serving(*roots, port=port, logged=not read_only, proxy=proxy, files=files) as running:
            if as_json:
                click.echo(json.dumps({"url": running.url, "origin": running.origin, "token": running.token}), file=out)
            else:
                click.echo(running.url, file=out)
                say(f"serving {', '.join(root.name for root in roots)} on this machine only; stop with Ctrl-C")
            if open_page:
                click.launch(str(running.entrance))
            running.wait()
    except KeyboardInterrupt:
        say("stopped")
    if any(not thread.daemon for thread in set(threading.enumerate()) - others):
        # Everything is closed and deleted, and a thread within a long search would keep the process until it is done.
        for stream in (out, sys.stderr):
            stream.flush()
        os._exit(0)


def _root(folder: Path | None) -> Path:
    with open_archive(folder) as archive:
        return archive.root


def _proxy(url: str, user_header: str) -> tuple[str, str, str]:
    """Return the origin of a proxy's address, the header of its users and its secret, all checked."""
    import os
    from urllib.parse import urlsplit

    from slideseek.errors import UsageError

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/") or "@" in parts.netloc:
        raise UsageError(f"--public-url is {url!r}", "give it like https://slides.example.org, without a path")
    if not user_header.replace("-", "").isalnum():
        raise UsageError(f"--user-header is {user_header!r}", "give the name of a header, such as X-Remote-User")
    secret = os.environ.get(SECRET_VARIABLE, "")
    if len(secret) < SECRET_LENGTH:
        raise UsageError(
            f"{SECRET_VARIABLE} has {len(secret)} characters, and {SECRET_LENGTH} are needed",
            "make one with 'openssl rand -hex 32', and let the proxy send it",
        )
    return f"{parts.scheme}://{parts.netloc}".lower(), user_header, secret
