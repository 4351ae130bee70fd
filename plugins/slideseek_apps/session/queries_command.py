"""`slideseek queries FILE`: many searches over one open archive, one line of JSON per query."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import archive_option
from slideseek.cli.progress import counting
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import ParameterError, SlideseekError, UsageError
from slideseek.searching.answer_json import answer_json

if TYPE_CHECKING:
    from slideseek.api import OpenArchive
    from slideseek.searching.request import Request


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@archive_option
@click.option("--engine", "name", help="The engine to search with (default: the first one configured).")
@click.option("-k", "count", type=int, default=5, show_default=True, help="Number of hits of a query that states none.")
def command(
    file: Path, folder: Path | None, name: str | None = None, count: int = 5, like: Request | None = None
) -> int:
    """Run a search for each line of FILE (- for standard input): a slide id, a file, or a JSON object.

    Prints one JSON object per line. 'slideseek search --queries FILE' is the same with all options of a search.
    """
    from slideseek.api import open_archive
    from slideseek.searching.request import Request

    requests = read_queries(file, like or Request(text="", k=count))
    with open_archive(folder) as archive:
        return search_all(archive, requests, name)


EXIT_FAILED_QUERIES = EXIT_FAILED_SLIDES
MAX_LINE = 1 << 20


def read_queries(file: Path, like: Request) -> list[Request]:
    """Return the request of each line: a slide id, a file, or a JSON object with the fields of a request.

    file: UTF-8 text, `-` for standard input; empty lines and lines that start with `#` are skipped. like: gives the
    fields a line does not state. An invalid line is an error that names it, before any search.
    """
    if str(file) == "-":
        return _parsed(sys.stdin, "standard input", like)
    try:
        with file.open(encoding="utf-8-sig") as lines:
            return _parsed(lines, file.name, like)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the queries of {file}: {error}", "give a UTF-8 file, one query per line"
        ) from error


def _parsed(lines: TextIO, name: str, like: Request) -> list[Request]:
    requests: list[Request] = []
    number = 0
    while line := lines.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise UsageError(f"{name} line {number} is longer than {MAX_LINE} characters", "write one query per line")
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            requests.append(_request(_fields(text), like))
        except SlideseekError as error:
            raise UsageError(f"{name} line {number}: {error.cause}", error.fix) from error
    if not requests:
        raise UsageError(f"{name} has no queries", "write a slide id, a file or a JSON object on each line")
    return requests


def _request(stated: dict[str, Any], like: Request) -> Request:
    """Return a request with the fields a line states; a region alone makes it a query with a region."""
    known = {one.name: getattr(like, one.name) for one in fields(like)}
    for name, value in stated.items():
        if name not in known:
            raise UsageError(f"a query has no field {name!r}", did_you_mean(name, known, f"it has {', '.join(known)}"))
        if name in ("where", "relevant", "rejected", "options"):
            sound = isinstance(value, list) and all(isinstance(one, str) for one in value)
        elif name == "mpp":
            sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
        else:
            sound = type(value) is type(known[name])
        if not sound:
            raise UsageError(f"{name} is {json.dumps(value)[:80]}", "see 'slideseek search' in the reference")
    if stated.get("region"):
        stated = {"kind": "region", **stated}
    made: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in stated.items()}
    return replace(like, **made)


def _fields(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {"text": text}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not valid JSON ({error})", 'write {"text": "SLIDE", ...} on one line') from error
    if "text" not in found:
        raise UsageError("the query has no 'text'", 'write {"text": "SLIDE", ...}')
    return found  # type: ignore[no-any-return]


def search_all(archive: OpenArchive, requests: list[Request], engine: str | None) -> int:
    """Run requests in order and print one JSON object per line, flushed: an answer, or `query` and `error`.

    Return the exit code: a query that fails does not stop the others.
    """
    failed = 0
    with counting("searching", len(requests)) as advance:
        for request in requests:
            try:
                line = answer_json(archive.run(request, engine=engine, source="search").answer)
            except ParameterError as error:
                failed, line = failed + 1, _failure(request, error.cause, f"set {error.parameter!r}, {error.fix}")
            except SlideseekError as error:
                failed, line = failed + 1, _failure(request, error.cause, error.fix)
            click.echo(json.dumps(line, ensure_ascii=False, allow_nan=False))
            advance(request.text)
    return EXIT_FAILED_QUERIES if failed else 0


def _failure(request: Request, cause: str, fix: str) -> dict[str, Any]:
    return {"query": request.pack(), "error": {"cause": cause, "fix": fix.strip(", ")}}
