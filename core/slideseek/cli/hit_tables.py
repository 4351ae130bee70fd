"""An answer and its evidence as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from slideseek.cli.output import print_table
from slideseek.searching.answer_json import evidence_data

if TYPE_CHECKING:
    from slideseek.searching.calibration import Calibration
    from slideseek.searching.evidence import Evidence
    from slideseek.searching.searcher import Answer


def print_answer(answer: Answer, calibration: Mapping[str, Calibration] | None = None) -> None:
    """Print an answer for people."""
    about = ", ".join(part for part in (answer.query.site, answer.query.label) if part)
    scope = f"slides of {answer.query.site}" if answer.mode == "vertical" else "the archive"
    title = f"{answer.query.id}{f' ({about})' if about else ''} - nearest in {scope}, engine {answer.engine}"
    rows = [
        [str(f.rank), f.hit.slide_id, f"{f.hit.distance:.6g}", f.record.site, f.record.label, f.record.patient]
        for f in answer.found
    ]
    click.echo(title)
    print_table(("rank", "slide", "distance", "site", "diagnosis", "patient"), rows, right=(0, 2))
    if not rows:
        click.echo("no slide passes the filters" if not answer.candidates else "no hits")
    for name, (value, hits) in answer.votes.items():
        what, confidence = "diagnosis" if name == "label" else name, answer.confidence(name)
        known = f", {confidence.labelled} with a {what}" if confidence.labelled < len(rows) else ""
        click.echo(f"vote for {what}: {value} ({hits} of {len(rows)}{known}; confidence {confidence.share:.2f})")
        if calibration is not None:
            right, asked = calibration[name].at(confidence.share)
            share = f" ({right / asked:.0%})" if asked else ""
            click.echo(f"  of {asked} slide(s) of the archive with that confidence, {right} were voted right{share}")
    click.echo(f"{answer.candidates} candidates searched in {answer.milliseconds:.1f} ms")


def print_evidence(answer: Answer, evidence: Mapping[str, Evidence], top: int) -> None:
    """Print for each hit the patches that made it similar; x, y and side are level-0 pixels of their slide."""
    rows: list[list[str]] = []
    for found in answer.found:
        data = evidence_data(evidence[found.hit.slide_id], top)
        start = str(found.rank), found.hit.slide_id
        if data["kind"] == "pairs":
            pairs = [(pair["query"], pair["hit"], f"{pair['distance']:.6g}") for pair in data["pairs"]]
            rows.extend([*start, _square(query), _square(hit), value] for query, hit, value in pairs)
        else:
            for side in ("query", "hit"):
                squares = [(_square(one), f"{one['part']:+.4f}") for one in data[side]]
                rows.extend([*start, side, square, part] for square, part in squares)
    if not rows:
        return
    pairs_shown = next(iter(evidence.values())).kind == "pairs"
    click.echo(
        "patches that match, nearest first" if pairs_shown else "patches that make the similarity, largest first"
    )
    columns = ("patch of the query", "patch of the hit", "distance") if pairs_shown else ("of", "patch", "part")
    print_table(("rank", "slide", *columns), rows, right=(0, 4))


def _square(square: Mapping[str, Any]) -> str:
    slide = f"{square['slide_id']} " if "slide_id" in square else ""
    return f"{slide}{square['x']},{square['y']} {square['side']:g} px"
