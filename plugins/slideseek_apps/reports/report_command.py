"""`slideseek report`: write queries and their hits as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option, open_archive
from slideseek.cli.output import say


@click.command()
@click.argument("numbers", nargs=-1, type=int)
@archive_option
@click.option("--session", default="", help="Report all queries of this session.")
@click.option("--query", "text", default="", help="Report a new query instead: a slide id or a slide file.")
@click.option("-k", "count", default=5, show_default=True, type=click.IntRange(1), help="Number of hits for --query.")
@click.option("--engine", "name", help="The engine for --query (default: the first one configured).")
@click.option("--vertical/--horizontal", "vertical", default=False, help="How to search with --query, as in 'search'.")
@click.option("--where", multiple=True, metavar="CONDITION", help="Filters for --query, as in 'search'.")
@click.option("--title", default="", help="Title of the page.")
@click.option("--without-evidence", is_flag=True, help="Leave out the matching patches, for a smaller page.")
@click.option(
    "--fields",
    multiple=True,
    metavar="COLUMN",
    help="A column of the manifest to show as it is, such as center (may be repeated).",
)
@click.option("--identified", is_flag=True, help="Show real ids and all that is known, for use in the house.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="report.html", show_default=True, help="File to write."
)
def command(
    numbers: tuple[int, ...],
    folder: Path | None,
    session: str,
    text: str,
    count: int,
    name: str | None,
    vertical: bool,
    where: tuple[str, ...],
    title: str,
    without_evidence: bool,
    fields: tuple[str, ...],
    identified: bool,
    output: Path,
) -> None:
    """Write one HTML page with logged queries, given by their NUMBERS, with a session, or with a new query.

    By default the latest query in the log is shown. The page is self-contained and can be sent and printed: slides,
    patients and centres have pseudonyms, and it has no path, user, note, or column that --fields does not list.
    Pictures, sites and diagnoses are shown as they are, and so is the --title. --identified shows all that is known.
    """
    from slideseek.errors import UsageError
    from slideseek.searching.query_log import open_log
    from slideseek.searching.request import Request
    from slideseek_apps.reports.query_pages import QueryPages
    from slideseek_apps.reports.report_page import render_report
    from slideseek_apps.reports.sharing import Sharing, write_private

    if sum((bool(numbers), bool(session), bool(text))) > 1:
        raise UsageError("numbers, --session and --query exclude each other", "write one page for each")
    with open_archive(folder) as archive:
        sharing = Sharing.of(archive, identified, fields)
        log, pages = open_log(archive), QueryPages(archive, not without_evidence, sharing)
        if text:
            request = Request(text=text, k=count, mode="vertical" if vertical else "horizontal", where=where)
            shown = [pages.run(request, archive.config.engine(name).name)]
        else:
            entries = [log.get(number) for number in numbers] or log.last(None if session else 1, session)
            if not entries:
                what = f"no query of session {session!r} in the log" if session else "the log has no queries yet"
                raise UsageError(what, "'slideseek history' lists the queries; or pass --query SLIDE")
            shown = [pages.logged(entry) for entry in entries]
        first = sharing.slide(shown[0].answer.query.id)
        heading = title or (f"Session {session}" if session else f"Slides like {first}")
        page = pages.page(shown, heading)
        write_private(output, render_report(page))
        given = {"report": [one.answer.query.id for one in shown], "identified": identified, "fields": list(fields)}
        if note := log.note(given | {"output": str(output.absolute())}):
            say(f"note    {note}")
    for one in shown:
        for note in one.answer.notes:
            say(f"note    {note}")
    click.echo(f"wrote {len(shown)} {'query' if len(shown) == 1 else 'queries'} to {output}")
