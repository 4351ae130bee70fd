"""`slideseek bench score`: every measure of the ranked lists of any system."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from slideseek_apps.bench.measure_sums import ListSums


@click.command()
@click.argument("hits", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--k",
    "ks",
    type=click.IntRange(1),
    multiple=True,
    help="Number of hits that count (may be repeated) [default: 1, 3 and 5].",
)
@click.option("--by-site", is_flag=True, help="A class is a label within query_site, as in vertical search.")
@json_option
def command(hits: Path, ks: tuple[int, ...], by_site: bool, as_json: bool) -> None:
    """Score the ranked lists in HITS, a CSV, under every convention.

    Columns: query_id, query_label, rank, hit_id, hit_label; optional: distance, query_patient, query_center,
    query_site, hit_patient, hit_center, relevant. A query without hits is one row with an empty rank.
    """
    from slideseek.errors import UsageError
    from slideseek.searching.votes import TIE_RULES
    from slideseek_apps.bench.measure_sums import ListSums
    from slideseek_apps.bench.ranked_lists import read_hits
    from slideseek_apps.bench.scoring import KS, score, score_classes

    queries = read_hits(hits)
    if by_site and not all(query.site for query in queries):
        raise UsageError(f"{hits}: not every query has a site", "fill in query_site, or leave --by-site out")
    lists = ListSums(queries, by_site)
    wanted = tuple(dict.fromkeys(ks)) or KS
    scores = score(lists, wanted)
    classes = [found for k in wanted for tie in TIE_RULES for found in score_classes(lists, k, tie)]
    notes = _notes(lists, wanted)
    if as_json:
        facts = {"file": str(hits), "queries": len(queries), "classes": len(lists.classes), "notes": notes}
        rows = {"scores": [dataclasses.asdict(s) for s in scores], "by_class": [dataclasses.asdict(c) for c in classes]}
        print_json(facts | rows)
        return
    print_table(
        ("measure", "convention", "value"),
        [[s.measure, s.convention, f"{s.value:.4f}" if s.value is not None else s.note] for s in scores],
    )
    print_table(
        ("site", "class", "slides", "vote", "tie", "precision", "recall", "F1")
        if by_site
        else ("class", "slides", "vote", "tie", "precision", "recall", "F1"),
        [
            [*([c.site] if by_site else []), c.label, str(c.slides), f"majority-{c.k}", c.tie]
            + [f"{value:.4f}" for value in (c.precision, c.recall, c.f1)]
            for c in classes
        ],
        right=(2, 5, 6, 7) if by_site else (1, 4, 5, 6),
    )
    for note in notes:
        say(f"note    {note}")


def _notes(lists: ListSums, ks: tuple[int, ...]) -> list[str]:
    """Return notes on the lists that a reader of the scores must know."""
    notes = []
    queries = lists.queries
    empty = sum(not query.hits for query in queries)
    if empty:
        notes.append(f"{empty} of {len(queries)} queries found nothing: they count as wrong")
    short = sum(0 < len(query.hits) < max(ks) for query in queries)
    if short:
        notes.append(f"{short} of {len(queries)} queries have fewer than {max(ks)} hits: those they have vote")
    own = sum(any(query.patient and hit.patient == query.patient for hit in query.hits) for query in queries)
    if own:
        notes.append(
            f"{own} of {len(queries)} queries find slides of their own patient: leave the patient out to compare"
        )
    if not all(query.patient for query in queries):
        notes.append("some queries have no query_patient: whether they find their own patient cannot be checked")
    return notes
