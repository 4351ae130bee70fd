"""`slideseek history`: the past queries of an archive."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slideseek.cli.options import archive_option, json_option, open_archive
from slideseek.cli.output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slideseek.searching.query_log import LogEntry

NARROW = 120
"""Terminal width, in characters, below which a table of seven columns is unreadable."""


@click.command()
@archive_option
@click.option("-n", "--last", "count", default=20, show_default=True, type=click.IntRange(1), help="How many queries.")
@click.option("--all", "everything", is_flag=True, help="List all queries.")
@click.option("--session", default="", help="Only the queries of one session.")
@json_option
def command(folder: Path | None, count: int, everything: bool, session: str, as_json: bool) -> None:
    """List the latest queries: the user, the query, the time, the engine and the first hits.

    'slideseek replay N' runs one again; 'slideseek report N' shows it as a page.
    """
    from slideseek.errors import UsageError
    from slideseek.searching.query_log import open_log

    with open_archive(folder) as archive:
        entries = open_log(archive).last(None if everything else count, session)
    if session and not entries:
        raise UsageError(f"no query of session {session!r} in the log", "'slideseek history' lists the queries")
    if as_json:
        print_json([asdict(entry) for entry in entries])
    else:
        print_entries(entries)


def print_entries(entries: Sequence[LogEntry]) -> None:
    """Print log entries as a table, or as a few lines per entry on a narrow terminal."""
    import shutil
    import sys

    from slideseek.searching.request import Request

    if not entries:
        click.echo("no queries yet")
        return
    rows = []
    for entry in entries:
        request = Request.unpack(entry.request)
        known = [f"{name} {getattr(request, name)}" for name in ("site", "patient", "center") if getattr(request, name)]
        how = [request.mode, request.settings(), *known]
        hits = ", ".join(str(slide_id) for slide_id, _ in entry.answer["hits"][:3]) or "no hits"
        more = " ..." if len(entry.answer["hits"]) > 3 else ""
        asked = entry.asked.replace("T", " ").removesuffix("+00:00")
        rows.append([str(entry.number), asked, entry.who, str(request), entry.engine, ", ".join(how), hits + more])
    if sys.stdout.isatty() and shutil.get_terminal_size().columns < NARROW:
        for number, asked, who, query, engine, way, found in rows:
            click.echo(f"{number}  {query}\n    {asked} by {who}, {engine}, {way}\n    {found}")
        return
    print_table(("no.", "asked (UTC)", "by", "query", "engine", "how", "hits"), rows, right=(0,), whole=(0, 1))
