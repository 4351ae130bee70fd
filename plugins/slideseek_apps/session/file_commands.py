"""Session commands for files and the log: save, export, history, reload."""

from __future__ import annotations

import json
from pathlib import Path

import click

from slideseek.archive.files import write_text
from slideseek.cli.output import csv_text
from slideseek.errors import UsageError
from slideseek.plugins import needs_application
from slideseek.searching.answer_json import CSV_HEADER, answer_json, csv_rows
from slideseek.searching.query_log import open_log
from slideseek.searching.request import Result
from slideseek_apps.session.command_spec import Command, exactly, nothing_more, split_words
from slideseek_apps.session.history_command import print_entries
from slideseek_apps.session.search_session import Session


def save(session: Session, text: str) -> None:
    """Write the session as a script that repeats it."""
    (word,) = exactly(split_words(text), 1, "save FILE")
    lines = [line for line in session.lines if line.split()[0] not in ("save", "quit")]
    heading = f"# slideseek session {session.archive.root.name} --script {Path(word).name}"
    write_text(Path(word), "\n".join([heading, *lines]) + "\n")
    click.echo(f"wrote {len(lines)} command(s) to {word}")


def export(session: Session, text: str) -> None:
    """Write the last hits as CSV, JSON or an HTML page, depending on the file's suffix: shareable, or identified."""
    with needs_application("reports", "a file of hits"):
        from slideseek_apps.reports.query_pages import QueryPages
        from slideseek_apps.reports.report_page import render_report
        from slideseek_apps.reports.sharing import Sharing, write_private
    words = split_words(text)
    identified = "--identified" in words
    usage = "export FILE.csv, FILE.json or FILE.html [--identified]"
    (word,) = exactly([one for one in words if one != "--identified"], 1, usage)
    path, asked = Path(word), session.last()
    sharing = Sharing.of(session.archive, identified)
    answer = sharing.answer(asked.answer)
    if path.suffix == ".csv":
        write_private(path, csv_text(CSV_HEADER, csv_rows(answer)))
    elif path.suffix == ".json":
        kept = {**answer_json(answer), "number": asked.number}
        if identified:
            kept["request"] = asked.request.pack()
        write_private(path, json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    elif path.suffix == ".html":
        pages = QueryPages(session.archive, sharing=sharing)
        shown = pages.complete(Result(asked.request, asked.query, asked.answer))
        write_private(path, render_report(pages.page([shown], f"Slides like {answer.query.id}")))
    else:
        raise UsageError(f"cannot export to {word!r}", "end the name in .csv, .json or .html")
    given = {
        "export": "hits",
        "of": asked.number or asked.request.text,
        "identified": identified,
        "output": str(path.absolute()),
    }
    if note := open_log(session.archive).note(given):
        click.echo(f"note    {note}", err=True)
    click.echo(f"wrote {len(asked.answer.found)} hit(s) to {word}")


def history(session: Session, text: str) -> None:
    """List the latest queries in the archive's log."""
    word = text.strip() or "10"
    if not word.isdecimal() or int(word) < 1:
        raise UsageError(f"{word!r} is not a number of queries", "write: history 20")
    print_entries(open_log(session.archive).last(int(word)))


def reload(session: Session, text: str) -> None:
    """Reload the archive, after a build."""
    nothing_more(text, "reload")
    session.reload()
    click.echo(f"engine {session.engine}: {len(session.searcher.index.ids)} slides")


COMMANDS = (
    Command("save", "save FILE", "write the session as a script", save, ("file",)),
    Command("export", "export FILE.csv|.json|.html [--identified]", "write the last hits to a file", export, ("file",)),
    Command("history", "history [NUMBER]", "list the latest queries, of this session and earlier ones", history),
    Command("reload", "reload", "reload the archive, after a build", reload),
)
