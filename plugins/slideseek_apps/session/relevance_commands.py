"""Relevance feedback: mark hits as relevant or not, then search with the marks."""

from __future__ import annotations

from dataclasses import replace

import click

from slideseek.errors import UsageError
from slideseek_apps.session.command_spec import Command, split_words
from slideseek_apps.session.search_commands import show_answer
from slideseek_apps.session.search_session import Session

VERDICTS = {"relevant": True, "not": False, "clear": None}


def mark(session: Session, text: str) -> None:
    """Mark hits as relevant or not, for `more like these`."""
    *which, verdict = split_words(text) or [""]
    if not which and not verdict:
        _print_marks(session)
        return
    if verdict not in VERDICTS or not which:
        raise UsageError(f"invalid: 'mark {text.strip()}'", "write: mark N relevant, mark N not, mark N clear")
    records = [session.record(part) for word in which for part in word.split(",") if part]
    asked = session.last()
    for record in records:
        if record.id == asked.query.record.id:
            raise UsageError("the query itself cannot be marked", "mark hits: 1 and up")
    for record in records:
        good = VERDICTS[verdict]
        session.marks.pop(record.id, None)
        if good is not None:
            session.marks[record.id] = good
    _print_marks(session)


def more(session: Session, text: str) -> None:
    """Search with the marks."""
    if text.strip() not in ("", "like these"):
        raise UsageError(f"invalid: 'more {text.strip()}'", "write: more like these")
    asked = session.last()
    if not session.marks:
        raise UsageError("nothing is marked", "mark hits first, such as: mark 1 relevant")
    relevant = tuple(slide_id for slide_id, good in session.marks.items() if good)
    rejected = tuple(slide_id for slide_id, good in session.marks.items() if not good)
    show_answer(session, session.settle(replace(asked.request, relevant=relevant, rejected=rejected)))


def _print_marks(session: Session) -> None:
    if not session.marks:
        click.echo("nothing is marked")
    for slide_id, good in session.marks.items():
        click.echo(f"{'relevant    ' if good else 'not relevant'}  {slide_id}")


COMMANDS = (
    Command(
        "more", "more like these", "search with the marks: like the relevant hits, unlike the others", more, ("like",)
    ),
    Command("mark", "mark N... relevant|not|clear", "judge hits for 'more like these'", mark, ("mark",)),
)
