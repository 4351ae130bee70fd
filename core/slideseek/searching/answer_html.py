"""An answer as a piece of HTML, for notebooks."""

from __future__ import annotations

from html import escape

from slideseek.searching.searcher import Answer
from slideseek.searching.votes import FIELD_NAMES

_CELL = "padding:2px 10px;text-align:left"
_NUMBER = "padding:2px 10px;text-align:right;font-variant-numeric:tabular-nums"


def answer_html(answer: Answer) -> str:
    """Return a title, a table of the hits, and the votes. Needs no style sheet; text is escaped."""
    query = answer.query
    about = ", ".join(part for part in (query.site, query.label) if part)
    scope = f"slides of {query.site}" if answer.mode == "vertical" else "the archive"
    head = f"<b>{escape(query.id)}</b>{escape(f' ({about})' if about else '')}"
    title = f"{head}: nearest in {escape(scope)}, engine {escape(answer.engine)}"
    distance = f"distance ({answer.unit})" if answer.unit else "distance"
    heads = [("rank", _NUMBER), ("slide", _CELL), (distance, _NUMBER), ("site", _CELL), ("diagnosis", _CELL)]
    top = "".join(f'<th style="{style}">{escape(name)}</th>' for name, style in [*heads, ("patient", _CELL)])
    rows = []
    for one in answer.found:
        texts = str(one.rank), one.hit.slide_id, f"{one.hit.distance:.6g}", one.record.site, one.record.label
        styles = _NUMBER, _CELL, _NUMBER, _CELL, _CELL, _CELL
        cells = zip((*texts, one.record.patient), styles)
        rows.append("<tr>" + "".join(f'<td style="{style}">{escape(text)}</td>' for text, style in cells) + "</tr>")
    votes = "".join(
        f"<div>{escape(FIELD_NAMES[name])}: <b>{escape(vote.value)}</b> ({vote.agreeing} of {vote.hits} hits)</div>"
        for name, vote in answer.votes.items()
    )
    notes = "".join(f"<div><i>{escape(note)}</i></div>" for note in answer.notes)
    empty = "" if rows else "<div>no hits</div>"
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<div><div>{title}</div>{table}{empty}{votes}{notes}</div>"
