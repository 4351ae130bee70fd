"""`slideseek audit`: who searched and exported what, and whether the log of it is as it was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from slideseek.cli.options import archive_option, json_option, open_archive
from slideseek.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slideseek.searching.query_log import AuditEntry


@click.command()
@archive_option
@click.option(
    "--head", default="", metavar="N:DIGEST", help="The head that an earlier check printed: it must still be there."
)
@click.option("--list", "listed", is_flag=True, help="List the entries.")
@json_option
def command(folder: Path | None, head: str, listed: bool, as_json: bool) -> None:
    """Check the audit log: every entry has a digest of itself and of the entry before it.

    So no entry can be changed, removed or inserted without all later digests changing. Somebody who may write to the
    archive could compute them all again, or cut off the end: keep the printed head elsewhere, and pass it as --head.
    """
    from slideseek.errors import DamagedError, UsageError
    from slideseek.searching.query_log import open_log

    number, _, digest = head.partition(":")
    if head and not (number.isdecimal() and digest):
        raise UsageError(f"--head is {head!r}", "give it as 'slideseek audit' printed it: N:DIGEST")
    with open_archive(folder) as archive:
        entries, queries = open_log(archive).audited()
    if listed and not as_json:
        for entry in entries:
            click.echo(f"{entry.number:>6}  {entry.happened}  {entry.who}  {entry.what}")
    problems = broken(entries, queries)
    if head and (int(number) > len(entries) or not entries[int(number) - 1].digest.startswith(digest)):
        problems.append(f"entry {number} is not the one whose digest was kept")
    outside = sum(1 for number in queries if number not in _covered(entries))
    last = f"{entries[-1].number}:{entries[-1].digest}" if entries else ""
    if as_json:
        found = {"entries": len(entries), "head": last, "older": outside, "problems": problems}
        print_json(found | ({"list": [entry._asdict() for entry in entries]} if listed else {}))
    elif not problems:
        click.echo(f"{len(entries)} entries, all as they were written" + (f"; head {last}" if last else ""))
        if outside:
            click.echo(f"{outside} queries are older than the audit log, and not covered by it")
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise DamagedError(
            f"the audit log was changed: {problems[0]}{more}", "compare it with a backup of the catalogue"
        )


def broken(entries: Sequence[AuditEntry], queries: Mapping[int, str]) -> list[str]:
    """Return what is wrong with a log. queries: the digest of each logged query as it is stored now."""
    import json

    found: list[str] = []
    previous, covered = "", _covered(entries)
    for expected, entry in enumerate(entries, 1):
        if entry.number != expected:
            return [*found, f"entry {expected} is missing"]
        if entry.digest != entry.link(previous):
            found.append(f"entry {entry.number} is not as it was written")
        previous = entry.digest
        try:
            what = json.loads(entry.what)
        except ValueError:
            continue  # its digest is wrong, then
        if "query" in what and queries.get(what["query"], "") != what["row"]:
            state = "is not as it was written" if what["query"] in queries else "is missing"
            found.append(f"query {what['query']} {state}")
    newer = [number for number in queries if covered and number > min(covered) and number not in covered]
    return found + [f"query {number} was inserted" for number in newer]


def _covered(entries: Sequence[AuditEntry]) -> set[int]:
    """Return the numbers of the queries in the audit log."""
    import json

    covered = set()
    for entry in entries:
        try:
            covered.add(int(json.loads(entry.what)["query"]))
        except (ValueError, KeyError, TypeError):
            continue
    return covered
