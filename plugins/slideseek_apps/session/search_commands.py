"""Session commands that search, and those that set how to search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from slideseek.cli.output import print_answer
from slideseek.errors import UsageError
from slideseek.searching.filters import parse_filter
from slideseek.searching.request import Request, query_kind
from slideseek_apps.session.command_spec import Command, nothing_more, split_words
from slideseek_apps.session.search_session import Session

FLAGS = ("--patch", "--case", "--text")
OPTIONS = (*FLAGS, "--region", "--annotation", "--site", "--patient", "--center", "--mpp", "--set")
SEARCH_USAGE = (
    "search [QUERY] [--region X,Y,W,H] [--patch] [--case] [--text] [--site S] [--patient P] [--center C] [--mpp N]"
    " [--set NAME=VALUE]"
)
SWITCH = {"on": True, "off": False}


def search(session: Session, text: str) -> None:
    """Search with the named query, or repeat the last query with the current settings.

    Options of the index or the reranker (`--set`) are for this search and what follows from it (explain, more); with
    no query, `--set` repeats the last one with other options.
    """
    words = split_words(text)
    request = _request(words, session) if words else replace(session.last().request, relevant=(), rejected=())
    show_answer(session, session.settle(request))


def show_answer(session: Session, request: Request) -> None:
    """Search and print the answer, its notes and its number in the log."""
    asked = session.ask(request)
    print_answer(asked.answer)
    for note in asked.answer.notes:
        session.notify(f"note    {note}")
    if asked.number:
        click.echo(f"query {asked.number} in the log: {request.settings()}")


def where(session: Session, text: str) -> None:
    """Add a filter, drop one by its number, drop all, or show them."""
    condition = text.strip()
    if condition in ("clear", "none"):
        session.where.clear()
    elif condition.startswith("drop "):
        number = condition.removeprefix("drop ").strip()
        if not number.isdecimal() or not 1 <= int(number) <= len(session.where):
            raise UsageError(
                f"no filter {number!r}", f"there are {len(session.where)} filters; write: where drop NUMBER"
            )
        del session.where[int(number) - 1]
    elif condition:
        plain = _unquoted(condition)
        parse_filter(plain, session.searcher.fields)
        if plain not in session.where:
            session.where.append(plain)
    if not session.where:
        click.echo("no filter: all slides are candidates")
        return
    for place, kept in enumerate(session.where, start=1):
        click.echo(f"{place}. {kept}")
    filters = [parse_filter(kept, session.searcher.fields) for kept in session.where]
    passing = sum(all(passes(record) for passes in filters) for record in session.records.values())
    click.echo(f"{passing} of {len(session.records)} slides pass")


def engine(session: Session, text: str) -> None:
    """Switch to another engine, or list them."""
    name = text.strip()
    if name:
        session.use(name)
        click.echo(f"engine {name}: {len(session.searcher.index.ids)} slides, {session.searcher.engine.spec}")
        return
    for known in session.engines:
        click.echo(f"{'*' if known == session.engine else ' '} {known}")


def count(session: Session, text: str) -> None:
    """Set how many hits are shown."""
    word = text.strip()
    if word:
        if not word.isdecimal() or not 1 <= int(word) <= 10000:
            raise UsageError(f"k must be a number from 1 to 10000, not {word!r}", "write: k 10")
        session.k = int(word)
    click.echo(f"k = {session.k}")


def vertical(session: Session, text: str) -> None:
    """Search among slides of the query's site only."""
    nothing_more(text, "vertical")
    session.mode = "vertical"
    click.echo("vertical: among slides of the query's site")


def horizontal(session: Session, text: str) -> None:
    """Search the whole archive."""
    nothing_more(text, "horizontal")
    session.mode = "horizontal"
    click.echo("horizontal: the whole archive")


def same_patient(session: Session, text: str) -> None:
    """Include or exclude the query's own patient and slide."""
    word = text.strip()
    if word and word not in SWITCH:
        raise UsageError(f"cannot read 'same-patient {word}'", "write: same-patient on, or: same-patient off")
    session.same_patient = SWITCH.get(word, session.same_patient)
    click.echo(f"slides of the query's patient are {'included' if session.same_patient else 'left out'}")


def exclude_centre(session: Session, text: str) -> None:
    """Exclude slides of the query's centre, or not."""
    word = text.strip()
    if word and word not in SWITCH:
        raise UsageError(f"cannot read 'exclude-centre {word}'", "write: exclude-centre on, or: exclude-centre off")
    session.other_centers = SWITCH.get(word, session.other_centers)
    click.echo(f"slides of the query's centre are {'left out' if session.other_centers else 'included'}")


def any_stain(session: Session, text: str) -> None:
    """Find slides of any stain, or only of the query's."""
    word = text.strip()
    if word and word not in SWITCH:
        raise UsageError(f"cannot read 'any-stain {word}'", "write: any-stain on, or: any-stain off")
    session.any_stain = SWITCH.get(word, session.any_stain)
    click.echo(f"slides of other stains than the query's are {'included' if session.any_stain else 'left out'}")


def _request(words: list[str], session: Session) -> Request:
    """Parse the arguments of a search: one query, and options as on the command line; only `--set` needs no query."""
    found: dict[str, Any] = {}
    chosen: list[str] = []
    plain: list[str] = []
    flags: set[str] = set()
    rest: Iterator[str] = iter(words)
    for word in rest:
        name, _, given = word.partition("=")
        if name in FLAGS:
            flags.add(name[2:])
        elif name in OPTIONS:
            value = given or next(rest, "")
            if not value:
                raise UsageError(f"{name} needs a value", f"write: {SEARCH_USAGE}")
            if name == "--set":
                chosen.append(value)
            else:
                found[name[2:]] = value
        elif word.startswith("--"):
            raise UsageError(f"search has no option {name!r}", f"write: {SEARCH_USAGE}")
        else:
            plain.append(word)
    if not plain and not found and not flags:
        return replace(session.last().request, relevant=(), rejected=(), options=tuple(chosen))
    if "text" in flags and plain:  # words need no quotes
        plain = [" ".join(plain)]
    if len(plain) != 1:
        raise UsageError(f"expected one query, not {len(plain)}", "put a name with spaces in quotes")
    found["kind"] = query_kind(found.get("region"), "patch" in flags, "case" in flags, "text" in flags)
    if "mpp" in found:
        try:
            found["mpp"] = float(found["mpp"])
        except ValueError:
            raise UsageError(f"--mpp: {found['mpp']!r} is not a number", "write: --mpp 0.5") from None
    return Request(text=plain[0], options=tuple(chosen), **found)


def _unquoted(text: str) -> str:
    """Drop one pair of quotes around a whole condition, as a shell would."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


COMMANDS = (
    Command("search", SEARCH_USAGE, "find slides like a slide, file, region, case or text", search, ("slide",)),
    Command("where", "where [CONDITION | drop NUMBER | clear]", "add, drop or show filters", where, ("condition",)),
    Command("engine", "engine [NAME]", "search with another engine, or list them", engine, ("engine",)),
    Command("k", "k [NUMBER]", "set the number of hits", count),
    Command("vertical", "vertical", "search only slides of the query's site", vertical),
    Command("horizontal", "horizontal", "search the whole archive", horizontal),
    Command("same-patient", "same-patient [on | off]", "keep the query's patient or not", same_patient, ("switch",)),
    Command("exclude-centre", "exclude-centre [on | off]", "leave out the query's centre", exclude_centre, ("switch",)),
    Command("any-stain", "any-stain [on | off]", "find slides of other stains or not", any_stain, ("switch",)),
)  # fmt: skip
