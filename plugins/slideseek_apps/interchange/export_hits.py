"""Export the nearest slides of every slide: ranked lists that 'slideseek bench score' reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slideseek.api import OpenArchive
from slideseek.archive.archive import Archive
from slideseek.searching.searcher import Answer, Mode
from slideseek_apps.interchange.export_output import Destination, ExportSummary, SlideChoice
from slideseek_apps.interchange.tables import write_table

COLUMNS = (
    *("query_id", "query_label", "query_patient", "query_center", "query_site"),
    *("rank", "hit_id", "hit_label", "hit_patient", "hit_center", "distance"),
)


def nearest(archive: Archive, engine: str, ids: Sequence[str], k: int, mode: Mode) -> dict[str, Answer]:
    """Search with every slide among the slides of other patients; answers by slide id, in the order of `ids`."""
    searcher = OpenArchive(archive).searcher(engine)
    there = set(searcher.index.ids)
    known = [slide_id for slide_id in ids if slide_id in there]
    queries = [searcher.queries.stored(slide_id) for slide_id in known]
    if mode == "vertical":
        kept = [(slide_id, query) for slide_id, query in zip(known, queries) if query.record.site]
        known, queries = [slide_id for slide_id, _ in kept], [query for _, query in kept]
    return dict(zip(known, searcher.search_many(queries, k, mode)))


def export_hits(
    archive: Archive, engine: str, choice: SlideChoice, destination: Destination, k: int, mode: Mode, suffix: str
) -> ExportSummary:
    """Write one row per hit. A query that finds nothing is one row without a hit."""
    (path,) = destination.claim([f"hits.{suffix}"])
    summary, sharing = ExportSummary(), destination.sharing
    answers = nearest(archive, engine, [row.id for row in choice.rows], k, mode)
    missing = [row.id for row in choice.rows if row.id not in answers]
    what = "site to search in" if mode == "vertical" and answers else f"place in the index of engine {engine!r}"
    choice.leave_out(missing, what, "run 'slideseek build', or leave --vertical out", summary)
    records = {row.id: row.record for row in archive.catalog.slides}
    rows: list[tuple[Any, ...]] = []
    for slide_id, answer in answers.items():
        own, answer = sharing.record(records[slide_id]), sharing.answer(answer)
        head = (own.id, own.label, own.patient, own.center, own.site)
        found = [(one.rank, one.record, float(one.hit.distance)) for one in answer.found]
        rows += [
            (*head, rank, other.id, other.label, other.patient, other.center, distance)
            for rank, other, distance in found
        ] or [(*head, None, "", "", "", "", None)]
    write_table(path, {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)})
    summary.wrote(path, *map(sharing.slide, answers))
    return summary
