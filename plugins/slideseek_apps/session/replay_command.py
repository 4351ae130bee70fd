"""`slideseek replay`: run a logged query again."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option, json_option, open_archive
from slideseek.cli.output import print_answer, print_json, say

EXIT_DIFFERENT = 3


@click.command()
@click.argument("number", type=int)
@archive_option
@json_option
def command(number: int, folder: Path | None, as_json: bool) -> int:
    """Run query NUMBER of 'slideseek history' again with the same parameters and compare the hits.

    If they differ, the changes since then are listed and the exit code is 3. A replay is not logged.
    """
    from slideseek.searching.answer_json import answer_json
    from slideseek.searching.query_log import open_log
    from slideseek_apps.session.replay import replay

    with open_archive(folder) as archive:
        done = replay(archive, open_log(archive).get(number))
    if as_json:
        then = [{"slide_id": slide_id, "distance": distance} for slide_id, distance in done.entry.answer["hits"]]
        asked = {"number": number, "asked": done.entry.asked, "who": done.entry.who, "request": done.entry.request}
        print_json({**asked, "same": done.same, "changes": done.changes, "then": then, "now": answer_json(done.answer)})
        return 0 if done.same else EXIT_DIFFERENT
    print_answer(done.answer)
    for note in done.answer.notes:
        say(f"note    {note}")
    asked_at = f"{done.entry.asked.replace('T', ' ')} by {done.entry.who}"
    if done.same:
        click.echo(f"the same hits as query {number}, run {asked_at}")
    else:
        click.echo(f"NOT the same hits as query {number}, run {asked_at}")
        before = {str(slide_id): float(distance) for slide_id, distance in done.entry.answer["hits"]}
        after = {one.hit.slide_id: one.hit.distance for one in done.answer.found}
        for sign, mine, other in (("-", before, after), ("+", after, before)):
            for slide_id, distance in mine.items():
                if other.get(slide_id) != distance:
                    click.echo(f"  {sign} {slide_id} {distance:.6g}")
    for change in done.changes:
        click.echo(f"changed: {change}")
    return 0 if done.same else EXIT_DIFFERENT
