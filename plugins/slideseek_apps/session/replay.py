"""Run a logged query again and report what has changed if the hits differ."""

from __future__ import annotations

from dataclasses import dataclass

from slideseek.archive.archive import Archive
from slideseek.searching.query_log import LogEntry
from slideseek.searching.request import Request
from slideseek.searching.searcher import Answer, Searcher
from slideseek_apps.reports.log_changes import changes_since


@dataclass(frozen=True, slots=True)
class Replay:
    """A logged query run again. same: hits and distances equal the logged ones; changes: what has changed."""

    entry: LogEntry
    answer: Answer
    same: bool
    changes: tuple[str, ...]


def replay(archive: Archive, entry: LogEntry) -> Replay:
    """Run a logged query again with the current engine of that name."""
    searcher = Searcher.open(archive, entry.engine)
    result = Request.unpack(entry.request).run(searcher)
    hits = [[one.hit.slide_id, one.hit.distance] for one in result]
    same = hits == [list(hit) for hit in entry.answer["hits"]]
    changes = changes_since(entry, searcher, result)
    if not same and not changes:
        changes = ["nothing recorded; an approximate index may give different hits each time"]
    return Replay(entry, result.answer, same, tuple(changes))
